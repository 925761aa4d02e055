// SPDX-License-Identifier: GPL-2.0
//! What the program of the thread does: each iteration drops and refills some of its memory, and pages all of it out.

use super::{Allocator, Kind, LARGE, allocator};
use std::collections::VecDeque;

/// 60 MiB in folios of 64 kB.
const LARGE_FOLIOS: usize = 960;
/// 16 MiB of them are picked an iteration, with repetition.
const LARGE_PICKS: usize = 256;
/// 1 MiB in pages.
const SMALL_PAGES: usize = 256;
/// 256 KiB.
const SMALL_PICKS: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub kind: Kind,
    /// The 1 MiB without large folios too (`-s`).
    pub small: bool,
    pub iterations: u32,
    /// The task runs on one of them each iteration, and each keeps the cluster it last filled.
    pub cpus: usize,
    /// Of the CPUs it runs on.
    pub seed: u32,
}

/// What the two statistics of the folio size went up by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iteration {
    pub swpout: u32,
    pub fallback: u32,
}

impl Iteration {
    pub fn percent(self) -> f64 {
        100.0 * f64::from(self.fallback) / f64::from((self.swpout + self.fallback).max(1))
    }
}

pub fn run(setup: Setup) -> Vec<Iteration> {
    let mut swap = allocator(setup.kind, setup.cpus);
    let mut random = Random::new(1);
    let mut cpus = Random::new(setup.seed);
    let mut large = vec![Folio::Absent; LARGE_FOLIOS];
    let mut small = vec![Folio::Absent; if setup.small { SMALL_PAGES } else { 0 }];
    let mut out = Vec::new();
    for _ in 0..setup.iterations {
        refill(swap.as_mut(), &mut random, &mut large, LARGE_PICKS);
        if setup.small {
            refill(swap.as_mut(), &mut random, &mut small, SMALL_PICKS);
        }
        let cpu = cpus.below(setup.cpus);
        let mut seen = Iteration::default();
        for folio in large.iter_mut().filter(|f| **f == Folio::Resident) {
            *folio = page_out(swap.as_mut(), cpu, &mut seen);
        }
        for page in small.iter_mut().filter(|f| **f == Folio::Resident) {
            *page = Folio::Swapped(vec![single(swap.as_mut(), cpu)]);
        }
        out.push(seen);
    }
    out
}

#[derive(Clone, PartialEq)]
enum Folio {
    /// Never touched.
    Absent,
    Resident,
    /// The slots that hold it.
    Swapped(Vec<usize>),
}

/// `MADV_DONTNEED` frees the slots; the store after it makes a new folio.
fn refill(swap: &mut dyn Allocator, random: &mut Random, folios: &mut [Folio], picks: usize) {
    for _ in 0..picks {
        let folio = &mut folios[random.below(folios.len())];
        if let Folio::Swapped(slots) = std::mem::replace(folio, Folio::Resident) {
            slots.into_iter().for_each(|s| swap.free(s));
        }
    }
}

fn page_out(swap: &mut dyn Allocator, cpu: usize, seen: &mut Iteration) -> Folio {
    let pages = 1 << LARGE;
    Folio::Swapped(match swap.alloc(cpu, LARGE) {
        Some(first) => {
            seen.swpout += 1;
            (first..first + pages).collect()
        }
        None => {
            seen.fallback += 1;
            (0..pages).map(|_| single(swap, cpu)).collect()
        }
    })
}

fn single(swap: &mut dyn Allocator, cpu: usize) -> usize {
    swap.alloc(cpu, 0).expect("61 MiB fit into 64 MiB")
}

/// glibc's `rand()`: the program does not seed it, so that the model refills what the thread's program refilled.
struct Random {
    /// The last 31 numbers, the oldest first.
    last: VecDeque<u32>,
}

impl Random {
    fn new(seed: u32) -> Random {
        let mut last = VecDeque::from([seed]);
        while last.len() < 31 {
            let previous = u64::from(last[last.len() - 1]);
            last.push_back((previous * 16807 % 0x7fff_ffff) as u32);
        }
        // It starts three places into the sequence.
        last.rotate_left(3);
        let mut random = Random { last };
        for _ in 0..310 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u32 {
        let oldest = self.last.pop_front().unwrap_or_default();
        let next = oldest.wrapping_add(self.last[27]);
        self.last.push_back(next);
        next >> 1
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(kind: Kind, small: bool, cpus: usize, seed: u32) -> Vec<f64> {
        let setup = Setup {
            kind,
            small,
            iterations: 100,
            cpus,
            seed,
        };
        run(setup).into_iter().map(Iteration::percent).collect()
    }

    fn mean(shares: &[f64]) -> f64 {
        shares.iter().sum::<f64>() / shares.len() as f64
    }

    #[test]
    fn the_old_allocator_falls_back_for_every_folio() {
        for (small, cpus, seed) in [(false, 1, 1), (true, 1, 2), (false, 4, 3), (true, 4, 4)] {
            let shares = shares(Kind::Old, small, cpus, seed);
            assert_eq!(shares[..3], [0.0; 3], "the area is still new");
            // 31 clusters of 32 folios are used up in the fourth or fifth iteration, and are never whole again.
            assert!(shares[5] > 70.0, "{shares:?}");
            assert!(shares[9..].iter().all(|&s| s > 95.0), "{shares:?}");
            assert!(mean(&shares[9..]) > 99.0);
        }
    }

    #[test]
    fn the_new_one_does_not() {
        for seed in 1..4 {
            assert_eq!(shares(Kind::New, false, 1, seed), [0.0; 100]);
            // Each CPU holds back a part of a cluster, and 62 of 64 MiB leave little to hold back.
            let large = shares(Kind::New, false, 4, seed);
            assert!(large.iter().all(|&s| s < 20.0), "{large:?}");
            assert!(large.iter().any(|&s| s > 0.0));
            let mixed = shares(Kind::New, true, 4, seed);
            assert!(mixed.iter().all(|&s| s < 30.0), "{mixed:?}");
            assert!(mean(&mixed[50..]) > mean(&large[50..]));
        }
    }

    #[test]
    fn the_same_folios_are_refilled_as_in_the_thread() {
        // The sums of both columns of its tables A and D.
        for (small, sums) in [
            (false, [226, 224, 221, 231, 218, 227, 224, 222]),
            (true, [226, 229, 229, 226, 227, 218, 225, 227]),
        ] {
            let setup = Setup {
                kind: Kind::Old,
                small,
                iterations: 8,
                cpus: 4,
                seed: 1,
            };
            let all = run(setup);
            let ours: Vec<u32> = all.iter().map(|i| i.swpout + i.fallback).collect();
            assert_eq!(ours, sums);
            assert_eq!(all, run(setup));
        }
    }
}
