// SPDX-License-Identifier: GPL-2.0
//! What each shape does before and in its rounds.

use super::data::{Data, Pages, Reader};
use super::monitor::Monitor;
use super::sizes::{Shape, Sizes};
use super::{ANON_SEED, Access, MIB};
use crate::lab::Lab;
use crate::mem::PAGE;
use anyhow::{Context, Result, anyhow};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::thread;

/// Of files and buffers, from here on.
const FIRST_SEED: u64 = ANON_SEED + 1;

pub struct Play {
    sizes: Sizes,
    access: Access,
    dir: PathBuf,
    /// Read in every round.
    file: Option<Data>,
    pages: Option<Pages>,
    active: Option<Data>,
    stream: Option<(Data, Reader)>,
    /// Pages of the stream that were read.
    streamed: u64,
    spilled: VecDeque<Data>,
    /// Of the next segment of the ring.
    next_seed: u64,
}

impl Play {
    /// Files, before memory is full, and outside a cgroup, so that their pages are charged to it when they are read.
    pub fn prepare(lab: &Lab, sizes: &Sizes, access: Access) -> Result<Play> {
        let dir = lab.dir().to_path_buf();
        let cold = |name: &str, mib, seed| -> Result<Option<Data>> {
            if mib == 0 {
                return Ok(None);
            }
            lab.say(format_args!("writing {mib} MiB of {name} file"));
            Data::cold(&dir, name, mib, seed).map(Some)
        };
        let file = cold("file", sizes.file, FIRST_SEED)?;
        let active = cold("active", sizes.active_file, FIRST_SEED + 1)?;
        let stream = match cold("stream", sizes.stream, FIRST_SEED + 2)? {
            Some(data) => {
                let reader = data.reader()?;
                Some((data, reader))
            }
            None => None,
        };
        let pages = match &file {
            Some(file) if sizes.shape != Shape::Streaming => Some(file.pages_by(sizes.touch)?),
            _ => None,
        };
        Ok(Play {
            sizes: sizes.clone(),
            access,
            dir,
            file,
            pages,
            active,
            stream,
            streamed: 0,
            spilled: VecDeque::new(),
            next_seed: FIRST_SEED + 3,
        })
    }

    /// After memory was filled, before anything is counted.
    pub fn warm_up(&mut self, lab: &mut Lab, monitor: &mut Monitor) -> Result<()> {
        if let Some(active) = &self.active {
            let mut reader = active.reader()?;
            // Read for the second time, a page is activated.
            for n in (0..self.sizes.active_file).chain(0..self.sizes.active_file) {
                lab.verified(reader.mib(n)?);
            }
        }
        while self.spilled.len() < self.segments() {
            self.spill(monitor)?;
        }
        Ok(())
    }

    /// One round; the words verified.
    pub fn round(&mut self, monitor: &mut Monitor) -> Result<u64> {
        match self.sizes.shape {
            Shape::Seed | Shape::Transition | Shape::Mixed => self.read_pages(monitor),
            Shape::Spill => self.turn_ring(monitor),
            Shape::Streaming => self.readers(),
        }
    }

    /// What is left in the ring is verified too.
    pub fn finish(mut self) -> Result<u64> {
        let mut words = 0;
        while let Some(data) = self.spilled.pop_front() {
            words += data.reader()?.every_word(|_| Ok(()))?;
        }
        Ok(words)
    }

    /// All pages of the file; after each, some of the stream go by.
    fn read_pages(&mut self, monitor: &mut Monitor) -> Result<u64> {
        let pages = self.pages.as_ref().context("no file in this shape")?;
        let mut words = 0;
        for nth in 0..pages.len() {
            words += pages.access(nth)?;
            monitor.tick(1)?;
            if let Some((_, reader)) = &self.stream {
                for _ in 0..self.sizes.stream_pages {
                    words += reader.page(self.streamed)?;
                    self.streamed += 1;
                    monitor.tick(1)?;
                }
            }
        }
        Ok(words)
    }

    fn segments(&self) -> usize {
        (self.sizes.ring / self.sizes.segment()) as usize
    }

    fn spill(&mut self, monitor: &mut Monitor) -> Result<()> {
        let (mib, seed) = (self.sizes.segment(), self.next_seed);
        self.next_seed += 1;
        let data = Data::write(&self.dir, &format!("spill{seed}"), mib, seed)?;
        self.spilled.push_back(data);
        monitor.tick((mib as usize * MIB / PAGE) as u32)
    }

    /// Each segment is replaced once.
    fn turn_ring(&mut self, monitor: &mut Monitor) -> Result<u64> {
        let mut words = 0;
        for _ in 0..self.segments() {
            self.spill(monitor)?;
            if let Some(data) = self.spilled.pop_front() {
                words += data.reader()?.every_word(|pages| monitor.tick(pages))?;
            }
        }
        Ok(words)
    }

    fn readers(&self) -> Result<u64> {
        let file = self.file.as_ref().context("no file in this shape")?;
        let count = u64::from(self.sizes.readers);
        thread::scope(|scope| {
            let started: Vec<_> = (0..count)
                .map(|n| {
                    let from = self.sizes.file * n / count;
                    scope.spawn(move || self.reader(file, from))
                })
                .collect();
            let ended = started.into_iter().map(|t| {
                t.join()
                    .unwrap_or_else(|_| Err(anyhow!("a reader panicked")))
            });
            ended.sum()
        })
    }

    /// The whole file once, from a MiB of it on and around.
    fn reader(&self, file: &Data, from: u64) -> Result<u64> {
        match self.access {
            Access::Mmap => file.read_mapped(from as usize * MIB / PAGE),
            Access::Read => {
                let mut reader = file.reader()?;
                (from..from + self.sizes.file).map(|n| reader.mib(n)).sum()
            }
        }
    }
}
