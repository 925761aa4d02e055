// SPDX-License-Identifier: GPL-2.0
//! One of the tasks: a process with page tables of its own over the shared memory.

use super::gate::Gate;
use super::layout::Layout;
use crate::map::Map;
use crate::mem::{self, PAGE, WORDS_PER_PAGE};
use anyhow::{Context, Result, bail};
use rustix::mm::ProtFlags;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};
use std::os::fd::OwnedFd;

/// Each owns a word of every page; as many or more stay the same.
pub const MAX_TASKS: u32 = WORDS_PER_PAGE as u32 / 2;

pub struct Task<'a> {
    pub number: u32,
    pub tasks: u32,
    pub passes: u32,
    pub seed: u64,
    pub pages: usize,
    /// None: linear.
    pub layout: Option<&'a Layout>,
    pub memory: &'a OwnedFd,
    pub gate: &'a Gate,
}

impl Task<'_> {
    pub fn run(&self) -> Result<()> {
        let done = self.walk();
        if done.is_err() {
            self.gate.fail();
        }
        done.with_context(|| format!("task {}", self.number))
    }

    fn walk(&self) -> Result<()> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let map = Map::shared(self.memory, 0..(self.pages * PAGE) as u64, prot)?;
        let order = self
            .layout
            .map(|l| l.order(self.seed + u64::from(self.number)));
        if let Some(order) = &order {
            order.apply(&map)?;
        }
        self.gate.wait(1)?;
        let pages = || (0..self.pages).map(|at| (at, order.as_ref().map_or(at, |o| o.page(at))));
        for (at, page) in pages().filter(|(_, page)| self.share(*page)) {
            for word in 0..WORDS_PER_PAGE {
                map.store(at, word, value(page, word, 0));
            }
        }
        // All is written; from here on it is verified.
        self.gate.wait(2)?;
        for pass in 1..=self.passes {
            for (at, page) in pages() {
                self.visit(&map, at, page, pass)?;
            }
        }
        Ok(())
    }

    /// Whether this task is to write all of a page first, and to verify it in each pass.
    fn share(&self, page: usize) -> bool {
        page % self.tasks as usize == self.number as usize
    }

    /// `at` is where in the mapping `page` of the shared memory lies.
    fn visit(&self, map: &Map, at: usize, page: usize, pass: u32) -> Result<()> {
        let own = self.number as usize;
        let mut words = verify(map, at, page, own, value(page, own, pass - 1))?;
        if self.share(page) {
            for word in self.tasks as usize..WORDS_PER_PAGE {
                words += verify(map, at, page, word, value(page, word, 0))?;
            }
        }
        map.store(at, own, value(page, own, pass));
        self.gate.add_verified(words);
        Ok(())
    }
}

/// What a word of the shared memory holds after a pass.
fn value(page: usize, word: usize, pass: u32) -> u64 {
    mem::word(u64::from(pass) + 1, (page * WORDS_PER_PAGE + word) as u64)
}

fn verify(map: &Map, at: usize, page: usize, word: usize, want: u64) -> Result<u64> {
    let got = map.load(at, word);
    if got != want {
        bail!(
            "word {word} of page {page} is {got:#x} where {want:#x} was written: data is damaged"
        );
    }
    Ok(1)
}

/// Every word, when all tasks have ended.
pub fn verify_all(memory: &OwnedFd, pages: usize, tasks: u32, passes: u32) -> Result<u64> {
    let map = Map::shared(memory, 0..(pages * PAGE) as u64, ProtFlags::READ)?;
    let mut words = 0;
    for page in 0..pages {
        for word in 0..WORDS_PER_PAGE {
            let pass = if word < tasks as usize { passes } else { 0 };
            words += verify(&map, page, page, word, value(page, word, pass))?;
        }
    }
    Ok(words)
}

/// Killed and waited for on drop.
pub struct Children(Vec<Pid>);

impl Children {
    pub fn new() -> Children {
        Children(Vec::new())
    }

    pub fn fork(&mut self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: the child uses memory of its own and what it shares on purpose, the allocator survives a fork of
        // this libc, and the child leaves by _exit() without running anything of its parent's.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error())
                .context("cannot start a task: lower --tasks, or give the guest more memory"),
            0 => {
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                // The parent's hook would take back what the parent still uses, and unwinding would drop it.
                std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
                let code = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(Ok(())) => 0,
                    Ok(Err(e)) => {
                        eprintln!("{e:#}");
                        1
                    }
                    Err(_) => 101,
                };
                // SAFETY: ends this process and nothing else.
                unsafe { libc::_exit(code) }
            }
            pid => {
                self.0.extend(Pid::from_raw(pid));
                Ok(())
            }
        }
    }

    /// False when all have ended well; one that did not is an error.
    pub fn running(&mut self) -> Result<bool> {
        let mut left = Vec::new();
        let mut wrong = None;
        for pid in self.0.drain(..) {
            match waitpid(Some(pid), WaitOptions::NOHANG).context("cannot wait for a task")? {
                None => left.push(pid),
                Some((_, status)) => match (status.exit_status(), status.terminating_signal()) {
                    (Some(0), _) => {}
                    (Some(code), _) => {
                        wrong = Some(format!("exited with {code}: its message is on the console"));
                    }
                    (_, signal) => {
                        wrong = Some(format!(
                            "was killed by signal {}: out of memory? Lower --tasks or raise --swap-mib",
                            signal.unwrap_or(0)
                        ));
                    }
                },
            }
        }
        self.0 = left;
        match wrong {
            Some(why) => bail!("a task {why}"),
            None => Ok(!self.0.is_empty()),
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::KILL);
        }
        for pid in &self.0 {
            let _ = waitpid(Some(*pid), WaitOptions::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared_memory;
    use super::*;

    fn walk(layout: Option<Layout>) {
        let (pages, tasks, passes) = (70, 3, 2);
        let memory = shared_memory(pages).unwrap();
        let gate = Gate::new(tasks).unwrap();
        std::thread::scope(|s| {
            for number in 0..tasks {
                let task = Task {
                    number,
                    tasks,
                    passes,
                    seed: 1,
                    pages,
                    layout: layout.as_ref(),
                    memory: &memory,
                    gate: &gate,
                };
                s.spawn(move || task.run().unwrap());
            }
        });
        // Each task its own word and its share of the others, twice.
        assert_eq!(gate.verified(), 2 * (70 * 3 + 70 * 509));
        assert_eq!(verify_all(&memory, pages, tasks, passes).unwrap(), 70 * 512);
        assert!(verify_all(&memory, pages, tasks, passes - 1).is_err());
    }

    #[test]
    fn all_words_in_both_mappings() {
        walk(None);
        walk(Some(Layout::new(70, 16)));
    }
}
