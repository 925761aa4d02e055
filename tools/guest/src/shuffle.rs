// SPDX-License-Identifier: GPL-2.0
//! Orders that look random and are the same in every run.

use crate::mem;

/// 0 to `count` - 1, each once, in an order that depends on `seed` alone (Fisher and Yates).
pub fn order(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for left in (1..count).rev() {
        let other = mem::word(seed, left as u64) % (left as u64 + 1);
        order.swap(left, other as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_not_in_line() {
        let shuffled = order(128, 1);
        assert_eq!(shuffled, order(128, 1));
        assert_ne!(shuffled, order(128, 2));
        assert!(shuffled.windows(2).filter(|w| w[0] + 1 == w[1]).count() < 8);
        let mut sorted = shuffled;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..128));
        assert!(order(0, 1).is_empty());
        assert_eq!(order(1, 1), [0]);
    }
}
