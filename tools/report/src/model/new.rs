// SPDX-License-Identifier: GPL-2.0
//! 2024's series ("mm: swap: mTHP swap allocator base on swap cluster order"). A cluster belongs to an order from its
//! first folio until it is wholly free. When no free cluster is left, a folio goes into a partly filled cluster of its
//! order. A single page that finds neither takes any slot, as before, and so can still spoil a cluster of large folios.

use super::{Allocator, CLUSTER, Map, SLOTS};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    /// On the list of partly filled clusters of its order.
    Nonfull,
    /// A CPU fills it.
    Current,
    /// Full, or no hole was left for its order.
    Unlisted,
}

pub struct ByOrder {
    map: Map,
    state: Vec<State>,
    order: Vec<u32>,
    free: VecDeque<usize>,
    nonfull: BTreeMap<u32, VecDeque<usize>>,
    next: Vec<BTreeMap<u32, usize>>,
}

impl ByOrder {
    pub fn new(cpus: usize) -> ByOrder {
        let clusters = SLOTS / CLUSTER;
        let mut state = vec![State::Free; clusters];
        // The swap header is a single page.
        state[0] = State::Nonfull;
        ByOrder {
            map: Map::new(),
            state,
            order: vec![0; clusters],
            free: (1..clusters).collect(),
            nonfull: BTreeMap::from([(0, VecDeque::from([0]))]),
            next: vec![BTreeMap::new(); cpus],
        }
    }

    fn in_cluster_of_order(&mut self, cpu: usize, order: u32) -> Option<usize> {
        let slots = 1 << order;
        loop {
            let from = match self.next[cpu].remove(&order) {
                Some(at) => at,
                None => self.open(order)? * CLUSTER,
            };
            let cluster = from / CLUSTER;
            let hole = self.map.hole(from, slots);
            let Some(at) = hole.filter(|at| (at + slots) % CLUSTER != 0) else {
                self.close(cluster, hole, slots);
                if hole.is_some() {
                    return hole;
                }
                continue;
            };
            self.next[cpu].insert(order, at + slots);
            return Some(at);
        }
    }

    /// The cluster to fill next, which is on no list then.
    fn open(&mut self, order: u32) -> Option<usize> {
        let cluster = self
            .free
            .pop_front()
            .or_else(|| self.nonfull.get_mut(&order)?.pop_front())?;
        self.state[cluster] = State::Current;
        self.order[cluster] = order;
        Some(cluster)
    }

    /// Its end is reached. What was freed behind the hand meanwhile is kept on the list; `last` is about to be taken.
    fn close(&mut self, cluster: usize, last: Option<usize>, slots: usize) {
        let hole = self.map.hole(cluster * CLUSTER, slots);
        self.state[cluster] = State::Unlisted;
        if hole.is_some() && hole != last {
            self.list(cluster);
        }
    }

    fn list(&mut self, cluster: usize) {
        self.state[cluster] = State::Nonfull;
        self.nonfull
            .entry(self.order[cluster])
            .or_default()
            .push_back(cluster);
    }
}

impl Allocator for ByOrder {
    fn alloc(&mut self, cpu: usize, order: u32) -> Option<usize> {
        let at = match self.in_cluster_of_order(cpu, order) {
            Some(at) => at,
            None if order == 0 => self.map.scan()?,
            None => return None,
        };
        self.map.take(at, 1 << order);
        Some(at)
    }

    fn free(&mut self, slot: usize) {
        let cluster = slot / CLUSTER;
        self.map.free(slot);
        match self.state[cluster] {
            State::Current | State::Free => {}
            _ if self.map.count(cluster) == 0 => {
                for list in self.nonfull.values_mut() {
                    list.retain(|&c| c != cluster);
                }
                self.state[cluster] = State::Free;
                self.free.push_back(cluster);
            }
            State::Unlisted => self.list(cluster),
            State::Nonfull => {}
        }
    }
}
