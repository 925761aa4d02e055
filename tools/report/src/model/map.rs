// SPDX-License-Identifier: GPL-2.0
//! Which slots are in use: what both allocators stand on.

use super::{CLUSTER, SLOTS};

pub struct Map {
    used: Vec<bool>,
    /// Slots in use, of each cluster.
    count: Vec<usize>,
    /// Where the last search for a single slot ended.
    hand: usize,
}

impl Map {
    /// Empty but for slot 0, which is the swap header: so the first cluster is never wholly free.
    pub fn new() -> Map {
        let mut map = Map {
            used: vec![false; SLOTS],
            count: vec![0; SLOTS / CLUSTER],
            hand: 0,
        };
        map.take(0, 1);
        map
    }

    pub fn count(&self, cluster: usize) -> usize {
        self.count[cluster]
    }

    pub fn take(&mut self, first: usize, slots: usize) {
        for slot in first..first + slots {
            assert!(!self.used[slot], "slot {slot} is given out twice");
            self.used[slot] = true;
        }
        self.count[first / CLUSTER] += slots;
    }

    pub fn free(&mut self, slot: usize) {
        assert!(self.used[slot], "slot {slot} is freed twice");
        self.used[slot] = false;
        self.count[slot / CLUSTER] -= 1;
    }

    /// The first aligned hole at or after `from`, in the cluster of `from`.
    pub fn hole(&self, from: usize, slots: usize) -> Option<usize> {
        let end = (from / CLUSTER + 1) * CLUSTER;
        (from..end)
            .step_by(slots)
            .find(|&at| !self.used[at..at + slots].contains(&true))
    }

    /// Any free slot, from where the last search ended: what single pages fall back to. This is what spreads them over
    /// all clusters.
    pub fn scan(&mut self) -> Option<usize> {
        let at = (self.hand..SLOTS)
            .chain(0..self.hand)
            .find(|&s| !self.used[s])?;
        self.hand = at + 1;
        Some(at)
    }
}
