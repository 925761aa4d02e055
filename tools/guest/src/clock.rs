// SPDX-License-Identifier: GPL-2.0
//! The two clocks. Under icount a nanosecond of either is an instruction; under emulation without it neither means
//! anything, and no workload may report it.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of the calling thread.
pub fn thread_ns() -> u64 {
    ns(ClockId::ThreadCPUTime)
}

/// Time since boot.
pub fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

pub fn nap(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_time_and_no_cpu() {
        let (cpu, wall) = (thread_ns(), monotonic_ns());
        nap(20);
        assert!(monotonic_ns() - wall >= 20_000_000);
        assert!(thread_ns() - cpu < 20_000_000);
    }
}
