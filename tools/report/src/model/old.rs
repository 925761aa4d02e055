// SPDX-License-Identifier: GPL-2.0
//! Before 2024's series. Each CPU fills a cluster of its own for each order, and takes the next from the list of wholly
//! free ones. When that list is empty a single page searches the whole area, and a large folio gets nothing, however
//! many aligned holes there are.

use super::{Allocator, CLUSTER, Map, SLOTS};
use std::collections::{BTreeMap, VecDeque};

pub struct WholeOnly {
    map: Map,
    free: VecDeque<usize>,
    /// Where the next folio of an order goes, of each CPU.
    next: Vec<BTreeMap<u32, usize>>,
}

impl WholeOnly {
    pub fn new(cpus: usize) -> WholeOnly {
        WholeOnly {
            map: Map::new(),
            free: (1..SLOTS / CLUSTER).collect(),
            next: vec![BTreeMap::new(); cpus],
        }
    }

    fn in_own_cluster(&mut self, cpu: usize, order: u32) -> Option<usize> {
        let slots = 1 << order;
        loop {
            let from = match self.next[cpu].remove(&order) {
                Some(at) => at,
                None => self.free.front()? * CLUSTER,
            };
            let Some(at) = self.map.hole(from, slots) else {
                continue;
            };
            if (at + slots) % CLUSTER != 0 {
                self.next[cpu].insert(order, at + slots);
            }
            return Some(at);
        }
    }
}

impl Allocator for WholeOnly {
    fn alloc(&mut self, cpu: usize, order: u32) -> Option<usize> {
        let at = match self.in_own_cluster(cpu, order) {
            Some(at) => at,
            None if order == 0 => self.map.scan()?,
            None => return None,
        };
        self.map.take(at, 1 << order);
        // Others too may have taken the first slots of a cluster that a CPU still points into.
        self.free.retain(|&c| c != at / CLUSTER);
        Some(at)
    }

    fn free(&mut self, slot: usize) {
        self.map.free(slot);
        if self.map.count(slot / CLUSTER) == 0 {
            self.free.push_back(slot / CLUSTER);
        }
    }
}
