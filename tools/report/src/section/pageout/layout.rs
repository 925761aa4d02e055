// SPDX-License-Identifier: GPL-2.0
//! Base pages: in what order they are written, and what sorting them could gain.

use super::*;

/// Pages of a BIO of base pages (SWAP_CLUSTER_MAX), and what the IOMMU maps at most at once (128 KiB).
const BIO: usize = 32;
/// What MADV_PAGEOUT hands to reclaim at once: a page table of pages.
const TABLE: usize = 512;

pub fn write(out: &mut Section, groups: &[Group]) {
    let mut table = Table::new(&[
        "base pages, first touched",
        "arm",
        "steps up",
        "steps down",
        "IOVA links",
        "by the order alone",
        "sorted by 32",
        "sorted by 512",
        "all sorted",
    ]);
    for group in groups {
        for case in cases(group, "base") {
            for arm in group.arms() {
                for (nr, line) in (1..).zip(group.listed(&arm, &case, "pfns")) {
                    table.row(row(group, &arm, nr, line));
                }
            }
        }
    }
    if table.rows.is_empty() {
        return;
    }
    out.text(
        "Base pages are written in the order of their addresses, so what counts is how addresses lie in memory: as the page \
         allocator gave them at first touch. Each numbered row is an invocation, which takes 8 MiB anew, all but the first \
         from what another gave back. The last four columns are computed from the page frames in the order in which they \
         were written: how many runs of neighbours they form within BIOs of 32 pages, and how many after sorting each batch \
         of reclaim (32 pages), what MADV_PAGEOUT hands on at once (512), or all. That is the most that a sort could gain.",
    );
    out.table(table);
}

/// `nr` is the invocation, each of which takes its memory anew.
fn row(group: &Group, arm: &str, nr: usize, line: &results::Line) -> Vec<String> {
    let layout = group.option("--layout").unwrap_or("shuffled");
    let pfns = line.lists.get("pfns").map_or(&[][..], Vec::as_slice);
    let (up, down) = steps(pfns);
    let links = line.values.get("iova_links");
    let sorted = |batch| thousands(runs(&sorted_by(pfns, batch)));
    vec![
        format!("{layout}, {}, {nr}", super::matrix::setting(group)),
        arm.into(),
        thousands(up),
        thousands(down),
        links.map_or("–".into(), |n| thousands(*n)),
        thousands(runs(pfns)),
        sorted(BIO),
        sorted(TABLE),
        sorted(pfns.len().max(1)),
    ]
}

/// Runs of neighbours within BIOs: each is one mapping.
fn runs(pfns: &[i64]) -> i64 {
    let of_bio = |bio: &[i64]| 1 + bio.windows(2).filter(|w| w[1] - w[0] != 1).count();
    pfns.chunks(BIO).map(|bio| of_bio(bio) as i64).sum()
}

fn sorted_by(pfns: &[i64], batch: usize) -> Vec<i64> {
    let mut sorted = pfns.to_vec();
    sorted.chunks_mut(batch).for_each(<[i64]>::sort_unstable);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sort_gains() {
        let up: Vec<i64> = (0..2048).collect();
        let down: Vec<i64> = (0..2048).rev().collect();
        assert_eq!((runs(&up), runs(&down)), (64, 2048));
        assert_eq!(runs(&sorted_by(&down, BIO)), 64);
        // Every second page of 64: neighbours meet only in the larger batch.
        let apart: Vec<i64> = (0..32)
            .map(|i| 2 * i)
            .chain((0..32).map(|i| 2 * i + 1))
            .collect();
        assert_eq!(runs(&sorted_by(&apart, BIO)), 64);
        assert_eq!(runs(&sorted_by(&apart, TABLE)), 2);
        assert_eq!(runs(&[]), 0);
    }
}
