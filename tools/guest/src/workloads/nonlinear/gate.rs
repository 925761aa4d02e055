// SPDX-License-Identifier: GPL-2.0
//! What the tasks and their parent tell each other, in a page they share.

use crate::map::Map;
use crate::mem::PAGE;
use anyhow::{Result, bail};
use rustix::mm::ProtFlags;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const ARRIVED: usize = 0;
const VERIFIED: usize = 1;
const FAILED: usize = 2;

pub struct Gate {
    page: Map,
    tasks: u64,
}

impl Gate {
    pub fn new(tasks: u32) -> Result<Gate> {
        let memory = super::shared_memory(1)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        Ok(Gate {
            page: Map::shared(&memory, 0..PAGE as u64, prot)?,
            tasks: tasks.into(),
        })
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        self.page.atomic(0, word)
    }

    /// Until every task has come here for the `time`th time, from 1.
    pub fn wait(&self, time: u64) -> Result<()> {
        self.word(ARRIVED).fetch_add(1, SeqCst);
        while self.word(ARRIVED).load(SeqCst) < time * self.tasks {
            if self.word(FAILED).load(SeqCst) != 0 {
                bail!("another task failed");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub fn fail(&self) {
        self.word(FAILED).store(1, SeqCst);
    }

    pub fn add_verified(&self, words: u64) {
        self.word(VERIFIED).fetch_add(words, SeqCst);
    }

    pub fn verified(&self) -> u64 {
        self.word(VERIFIED).load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_for_all_or_fails_for_all() {
        let gate = Gate::new(3).unwrap();
        std::thread::scope(|s| {
            let waiting: Vec<_> = (0..3).map(|_| s.spawn(|| gate.wait(1))).collect();
            for w in waiting {
                w.join().unwrap().unwrap();
            }
        });
        gate.fail();
        assert!(gate.wait(2).is_err());
    }
}
