// SPDX-License-Identifier: GPL-2.0
//! Threads that first touch neighbouring anonymous pages while reclaim unmaps others of the same page table.

use super::Nonlinear;
use super::sampler::traffic;
use crate::lab::Lab;
use crate::mem::{self, Advice, PAGE, Region, WORDS_PER_PAGE};
use crate::vm::VmStat;
use anyhow::{Result, anyhow, ensure};
use std::sync::Barrier;
use std::thread;

pub fn run(lab: &mut Lab, args: &Nonlinear, pages: usize) -> Result<()> {
    ensure!(args.rounds > 0, "--rounds 0: nothing would be touched");
    let mut region = Region::new(pages * PAGE, PAGE)?;
    region.advise(Advice::NoHugePage)?;
    for round in 0..args.rounds {
        let before = VmStat::now()?;
        let seed = args.seed + u64::from(round);
        let words = touch_and_verify(&mut region, args.tasks as usize, seed)?;
        lab.verified(words);
        let mut values = traffic(&before, &VmStat::now()?)?.to_vec();
        values.push(("touched_pages", pages as i64));
        lab.sample("first-touch", round, &values)?;
        region.advise(Advice::DontNeed)?;
    }
    Ok(())
}

/// Page n is thread n's, in turn, so that all are in the same page tables all the time. The words verified.
fn touch_and_verify(region: &mut Region, threads: usize, seed: u64) -> Result<u64> {
    let mut shares: Vec<Vec<(u64, &mut [u64])>> = (0..threads).map(|_| Vec::new()).collect();
    for (page, words) in region.chunks_mut(WORDS_PER_PAGE).enumerate() {
        let first = (page * WORDS_PER_PAGE) as u64;
        shares[page % threads].push((first, words));
    }
    let barrier = Barrier::new(threads);
    let verified: Vec<Result<u64>> = thread::scope(|scope| {
        let started: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(|| one_thread(share, &barrier, seed)))
            .collect();
        let ended = started.into_iter().map(|t| {
            t.join()
                .unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
        });
        ended.collect()
    });
    verified.into_iter().sum()
}

fn one_thread(mut share: Vec<(u64, &mut [u64])>, barrier: &Barrier, seed: u64) -> Result<u64> {
    barrier.wait();
    for (first, words) in &mut share {
        mem::fill(words, seed, *first);
    }
    barrier.wait();
    share
        .iter()
        .map(|(first, w)| mem::verify(w, seed, *first))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_once() {
        let mut region = Region::new(67 * PAGE, PAGE).unwrap();
        let words = touch_and_verify(&mut region, 8, 3).unwrap();
        assert_eq!(words, 67 * 512);
        assert_eq!(region.verify(3).unwrap(), words);
    }
}
