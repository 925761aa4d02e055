// SPDX-License-Identifier: GPL-2.0
//! Threads that each own a part of a region and do with it what they are told, all at the same time.

use crate::mem::{self, Advice, Region, WORDS_PER_PAGE};
use crate::workloads::cpus;
use crate::{clock, pagemap, shuffle};
use anyhow::{Context, Result, bail};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

/// What a worker does; its answer is in the comment.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Takes its pages in a shuffled order: that neighbours are physical neighbours then does not depend on what the
    /// page allocator had at hand. Its CPU time.
    Scatter,
    /// Gives its memory up, so that what is filled next is new. Its CPU time.
    Drop,
    /// Its CPU time.
    Fill(u64),
    /// Gives the second half of each folio of that many pages up, so that it is partially mapped. Its CPU time.
    DropHalves(usize),
    /// Its CPU time.
    Collapse,
    /// Its CPU time.
    PageOut,
    /// Its CPU time.
    Touch,
    /// How many pages need no I/O to be read.
    InCore,
    /// How many words were right; a wrong one is an error.
    Verify(u64),
    /// The same of the first half of each folio of that many pages; the others must be zero.
    VerifyHalves(u64, usize),
}

pub struct Team {
    workers: Vec<Worker>,
}

struct Worker {
    orders: Sender<Order>,
    answers: Receiver<Result<u64>>,
    tid: u32,
}

impl Team {
    /// A thread a CPU in `cpus`, each with an equal part of `region`. They end when the team is dropped.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        region: &'env mut Region,
        cpus: &[usize],
    ) -> Result<Team> {
        let part = region.len() / cpus.len();
        let mut workers = Vec::new();
        for ((nr, words), cpu) in region
            .chunks_mut(part)
            .enumerate()
            .zip(cpus.iter().copied())
        {
            let (orders, todo) = channel();
            let (done, answers) = channel();
            let first = (nr * part) as u64;
            std::thread::Builder::new()
                .name(format!("worker{nr}"))
                .spawn_scoped(scope, move || work(words, first, cpu, &todo, &done))
                .context("cannot start a worker")?;
            let tid = answer(&answers)? as u32;
            workers.push(Worker {
                orders,
                answers,
                tid,
            });
        }
        Ok(Team { workers })
    }

    /// Thread ids, as in a trace.
    pub fn tids(&self) -> Vec<u32> {
        self.workers.iter().map(|w| w.tid).collect()
    }

    /// All do it; the sum of their answers.
    pub fn all(&self, order: Order) -> Result<u64> {
        for worker in &self.workers {
            worker.orders.send(order).context("a worker has gone")?;
        }
        // Every answer is taken, so that none is left for the next order.
        let answers: Vec<_> = self.workers.iter().map(|w| answer(&w.answers)).collect();
        answers.into_iter().sum()
    }
}

fn answer(answers: &Receiver<Result<u64>>) -> Result<u64> {
    answers.recv().context("a worker has gone")?
}

/// First says its thread id, then answers each order.
fn work(
    words: &mut [u64],
    first: u64,
    cpu: usize,
    todo: &Receiver<Order>,
    done: &Sender<Result<u64>>,
) {
    let tid = cpus::pin(cpu).map(|()| rustix::thread::gettid().as_raw_nonzero().get() as u64);
    if done.send(tid).is_err() {
        return;
    }
    while let Ok(order) = todo.recv() {
        if done.send(obey(words, first, order)).is_err() {
            return;
        }
    }
}

fn obey(words: &mut [u64], first: u64, order: Order) -> Result<u64> {
    match order {
        Order::InCore => return Ok(pagemap::in_core(words)? as u64),
        Order::Verify(seed) => return mem::verify(words, seed, first),
        Order::VerifyHalves(seed, pages) => return verify_halves(words, seed, first, pages),
        _ => {}
    }
    let start = clock::thread_ns();
    match order {
        Order::Scatter => scatter(words),
        Order::Drop => mem::advise(words, Advice::DontNeed)?,
        Order::Fill(seed) => mem::fill(words, seed, first),
        Order::DropHalves(pages) => drop_halves(words, pages)?,
        Order::Collapse => collapse(words)?,
        Order::PageOut => mem::advise(words, Advice::PageOut)?,
        Order::Touch => mem::touch(words),
        Order::InCore | Order::Verify(_) | Order::VerifyHalves(..) => {}
    }
    Ok(clock::thread_ns() - start)
}

fn scatter(words: &mut [u64]) {
    for page in shuffle::order(words.len() / WORDS_PER_PAGE, 1) {
        words[page * WORDS_PER_PAGE] = 1;
    }
}

fn drop_halves(words: &mut [u64], pages: usize) -> Result<()> {
    let folio = pages * WORDS_PER_PAGE;
    words
        .chunks_mut(folio)
        .try_for_each(|words| mem::advise(&mut words[folio / 2..], Advice::DontNeed))
}

fn verify_halves(words: &[u64], seed: u64, first: u64, pages: usize) -> Result<u64> {
    let folio = pages * WORDS_PER_PAGE;
    let mut sum = 0;
    for (nr, words) in words.chunks(folio).enumerate() {
        let (kept, given_up) = words.split_at(folio / 2);
        sum += mem::verify(kept, seed, first + (nr * folio) as u64)?;
        if let Some(word) = given_up.iter().find(|w| **w != 0) {
            bail!("{word:#018x} is in memory that was given up, which must read as zero");
        }
    }
    Ok(sum)
}

/// A page that somebody else holds for a moment makes it fail; that passes.
fn collapse(words: &mut [u64]) -> Result<()> {
    for _ in 0..20 {
        if mem::advise(words, Advice::Collapse).is_ok() {
            return Ok(());
        }
        clock::nap(5);
    }
    mem::advise(words, Advice::Collapse)
}
