// SPDX-License-Identifier: GPL-2.0
//! Threads that each own a part of a region and do with it what they are told, all at the same time.

use crate::mem::{self, Advice, Region, WORDS_PER_PAGE};
use crate::workloads::cpus;
use crate::{clock, pagemap, shuffle};
use anyhow::{Context, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

/// What a worker does; its answer is in the comment.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Takes its pages in a shuffled order: that neighbours are physical neighbours then does not depend on what the
    /// page allocator had at hand. Its CPU time.
    Scatter,
    /// Its CPU time.
    Fill(u64),
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
        _ => {}
    }
    let start = clock::thread_ns();
    match order {
        Order::Scatter => scatter(words),
        Order::Fill(seed) => mem::fill(words, seed, first),
        Order::Collapse => collapse(words)?,
        Order::PageOut => mem::advise(words, Advice::PageOut)?,
        Order::Touch => mem::touch(words),
        Order::InCore | Order::Verify(_) => {}
    }
    Ok(clock::thread_ns() - start)
}

fn scatter(words: &mut [u64]) {
    for page in shuffle::order(words.len() / WORDS_PER_PAGE, 1) {
        words[page * WORDS_PER_PAGE] = 1;
    }
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
