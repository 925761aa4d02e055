// SPDX-License-Identifier: GPL-2.0
//! A model of how swap space for 64 kB folios runs out of whole clusters. The kernel of the thread's tables A and B is
//! from before the series of 2024 and cannot be built here, so its columns are computed; each is labelled a model.
//!
//! What is modelled is where slots are taken from, and nothing else: no locks, no swap cache, no slot caches, no
//! other process. Old and new differ in one rule, see [`old`] and [`new`].

mod map;
mod new;
mod old;
mod workload;

pub use workload::{Iteration, Setup, run};

use map::Map;

/// The folios of the program: 16 pages.
pub const LARGE: u32 = 4;
/// 64 MiB of zram.
pub const SLOTS: usize = 64 * 256;
/// `SWAPFILE_CLUSTER` where whole THPs can be swapped, which 64 kB folios need too: `HPAGE_PMD_NR`. It is 256 only
/// without `CONFIG_THP_SWAP`.
pub const CLUSTER: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Up to 6.10: a large folio goes into a cluster that nobody uses.
    Old,
    /// The series of 2024: or into one that holds folios of its order already.
    New,
}

/// Swap slots of one area, handed out in powers of two.
trait Allocator {
    /// The first of `1 << order` slots for a folio reclaimed on `cpu`.
    fn alloc(&mut self, cpu: usize, order: u32) -> Option<usize>;
    fn free(&mut self, slot: usize);
}

fn allocator(kind: Kind, cpus: usize) -> Box<dyn Allocator> {
    match kind {
        Kind::Old => Box::new(old::WholeOnly::new(cpus)),
        Kind::New => Box::new(new::ByOrder::new(cpus)),
    }
}
