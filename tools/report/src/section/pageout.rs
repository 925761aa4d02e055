// SPDX-License-Identifier: GPL-2.0
//! The RFC's own measurement: `MADV_PAGEOUT` of 8 MiB of THPs to a swap file behind an IOMMU.

mod layout;
mod matrix;
mod mthp;

use super::*;
use crate::plot::{Line, Panel, Stroke};
use results::{Iommu, Lru};

const COUNTS: [Count; 4] = [
    ("splits", "THPs split", thousands, "4 → 4"),
    ("bios", "BIOs", thousands, "65 → 65"),
    ("iova_links", "IOVA links", thousands, "2,047 → 64"),
    ("swapped_pages", "pages swapped", thousands, "2,048"),
];

pub fn section(groups: &[Group]) -> Result<Section> {
    let mut out = Section::new("pageout", "pageout: a split THP is written out in order");
    out.text(
        "Each cycle fills 8 MiB that four THPs hold and pages them out to a swap file, which can take no THP whole: reclaim \
         splits each into 512 pages. The arms differ in the order in which those are written. The number of BIOs cannot \
         tell the orders apart, as a BIO takes 32 pages in any order; the IOMMU can: pages that follow each other in \
         memory are mapped together, others one by one.",
    );
    let plain: Vec<&Group> = groups.iter().filter(|g| as_in_the_thread(g)).collect();
    for group in &plain {
        for case in cases(group, "thp/") {
            counts(&mut out, group, &case);
        }
    }
    for group in &plain {
        for case in cases(group, "base/") {
            base_pages(&mut out, group, &case);
        }
    }
    for group in plain.iter().filter(|g| timed(g)) {
        cost(&mut out, group);
    }
    mthp::write(&mut out, groups);
    matrix::write(&mut out, groups);
    layout::write(&mut out, groups);
    Ok(out)
}

/// THPs or base pages by MADV_PAGEOUT to a file on NVMe behind an IOMMU that translates, with the series alone.
fn as_in_the_thread(group: &Group) -> bool {
    let other = ["--swap", "--reclaim", "--layout"].map(|o| group.option(o));
    let pages = group.option("--pages").unwrap_or("thp");
    group.device() == "nvme"
        && group.iommu() == Iommu::Translate
        && other.iter().all(Option::is_none)
        && matches!(pages, "thp" | "base")
        && !group.args().contains("--partial")
        && !group.arms().iter().any(|a| a.starts_with("all-"))
}

fn cases(group: &Group, prefix: &str) -> Vec<String> {
    let mut cases = group.cases();
    cases.retain(|c| c.starts_with(prefix));
    cases
}

fn workers(case: &str) -> String {
    match case.split_once('/').map_or("", |(_, n)| n) {
        "1" => "1 worker".into(),
        n => format!("{n} workers"),
    }
}

/// Workers, and the LRU where it is not the default one.
fn setting(group: &Group, case: &str) -> String {
    match group.lru() {
        Lru::Classic => workers(case),
        Lru::Mglru => format!("{}, MGLRU", workers(case)),
    }
}

fn pages(case: &str) -> &'static str {
    if case.starts_with("thp") {
        "THPs"
    } else {
        "base pages"
    }
}

fn counts(out: &mut Section, group: &Group, case: &str) {
    let first = format!("per 8 MiB, {}", setting(group, case));
    let table = counts_table(group, case, &first, &COUNTS, "RFC, before → after");
    if table.rows.is_empty() {
        return;
    }
    let metrics = COUNTS.map(|c| c.0);
    // The mail has room for one of two that say the same.
    if group.lru() == Lru::Classic {
        out.mail.push(Block::Table(table.without("c-patches")));
    }
    out.table(table);
    out.text(agreement(group, &[case], &metrics));
    out.note_gaps(group, case, &metrics);
    let what = |w: &str| format!("{w} per 8 MiB, {}", setting(group, case));
    for (i, want) in [4..=4, 65..=65].into_iter().enumerate() {
        let (metric, label, show, theirs) = COUNTS[i];
        let verdict = counted(group, case, metric, |_| want.clone());
        out.claim(
            &what(label),
            theirs,
            by_arm(group, case, metric, show),
            verdict,
        );
    }
    let links = |arm: &str| match arm.starts_with("base") {
        true => 2046..=2048,
        false => 64..=64,
    };
    out.claim(
        &what("IOVA links"),
        "2,047 → 64",
        by_arm(group, case, "iova_links", thousands),
        counted(group, case, "iova_links", links),
    );
    order(out, group, case);
}

/// The pages as written, a panel an arm.
fn order(out: &mut Section, group: &Group, case: &str) {
    let mut panels = Vec::new();
    let mut words = Vec::new();
    let mut as_expected = true;
    for arm in group.arms() {
        let Some(pfns) = group.list(&arm, case, "pfns") else {
            continue;
        };
        let (up, down) = steps(pfns);
        words.push(format!(
            "{arm} {} up and {} down",
            thousands(up),
            thousands(down)
        ));
        as_expected &= if arm.starts_with("base") {
            down > 10 * up
        } else {
            up > 10 * down
        };
        panels.push(Panel {
            title: arm.clone(),
            x: "page written, in order".into(),
            y: "page, in order of address".into(),
            lines: vec![Line {
                label: arm,
                stroke: Stroke::Solid,
                points: by_address(pfns),
            }],
            top: None,
        });
    }
    if panels.is_empty() {
        return;
    }
    out.claim(
        &format!("order of the pages, {}", setting(group, case)),
        "descending → ascending",
        words.join(", "),
        if as_expected { "same" } else { "differs" },
    );
    out.plot(Plot {
        name: format!("{}-{}-order", group.plan, case.replace('/', "-")),
        caption: format!(
            "The pages in the order in which they are written, {}: a line that falls is a THP written backwards after its \
             first page, one that rises is a THP in order. Steps to the neighbouring page: {}.",
            setting(group, case),
            words.join(", ")
        ),
        columns: panels.len().min(3),
        panels,
    });
}

/// Each page's place among the addresses, so that gaps between THPs take no room.
fn by_address(pfns: &[i64]) -> Vec<(f64, f64)> {
    let mut sorted = pfns.to_vec();
    sorted.sort_unstable();
    let place = |pfn: &i64| sorted.partition_point(|p| p < pfn) as f64;
    (0..).map(f64::from).zip(pfns.iter().map(place)).collect()
}

/// Steps to the next page and to the one before.
fn steps(pfns: &[i64]) -> (i64, i64) {
    let count = |step: i64| pfns.windows(2).filter(|w| w[1] - w[0] == step).count() as i64;
    (count(1), count(-1))
}

/// The control: nothing is split, so nothing may change.
fn base_pages(out: &mut Section, group: &Group, case: &str) {
    let theirs = |metric: &str| if metric == "splits" { "0" } else { "–" };
    let rows = COUNTS.map(|(m, l, s, _)| (m, l, s, theirs(m)));
    let first = format!("base pages, {}", setting(group, case));
    let table = counts_table(group, case, &first, &rows, "RFC");
    if !table.rows.is_empty() {
        out.text("The control: the same with base pages, which are not split and so not ordered by anything.");
        out.table(table);
        out.text(agreement(group, &[case], &rows.map(|r| r.0)));
        let splits = counted(group, case, "splits", |_| 0..=0);
        out.claim(
            &format!("base pages split, {}", setting(group, case)),
            "0",
            by_arm(group, case, "splits", thousands),
            splits,
        );
    }
}

fn cost(out: &mut Section, group: &Group) {
    let all = [cases(group, "thp/"), cases(group, "base/")].concat();
    let mut table = comparison_head(group, "per 8 MiB");
    let mut compared = Vec::new();
    let parts = [
        ("total_ns", "PAGEOUT + refault"),
        ("pageout_ns", "PAGEOUT"),
        ("refault_ns", "refault"),
    ];
    for case in &all {
        for (metric, label) in parts {
            let label = format!("{}, {}, {label}", pages(case), workers(case));
            comparison_rows(&mut table, group, &label, case, metric);
        }
        compared.extend(comparisons(group, case, "total_ns"));
        out.note_gaps(group, case, &parts.map(|p| p.0));
        claim_cost(out, group, case);
    }
    out.text(format!(
        "What it costs the calling thread to page 8 MiB out and to fault them in again from the swap cache, averaged over \
         the cycles of an invocation, in {}. The RFC measured CPU time on its author's machine: −14.84% with one worker \
         and −13.14% with two, base pages no clear change.",
        unit(group.clock())
    ));
    if !table.rows.is_empty() {
        out.table(table);
    }
    out.text(how_compared(group, &compared));
}

fn claim_cost(out: &mut Section, group: &Group, case: &str) {
    let compared = comparisons(group, case, "total_ns");
    let what = format!(
        "PAGEOUT + refault, {}, {}, {}",
        pages(case),
        workers(case),
        unit(group.clock())
    );
    let ours = change_cell(&compared);
    if case.starts_with("base/") {
        let verdict = control_verdict(&compared);
        out.claim(&what, "no clear change", ours, &verdict);
        return;
    }
    let theirs = match case {
        "thp/1" => "−14.84% CPU time",
        "thp/2" => "−13.14% CPU time",
        _ => "–",
    };
    let verdict = less_verdict(&compared);
    out.claim(&what, theirs, ours, &verdict);
    let mut table = Table::new(&[
        "k instructions per 8 MiB",
        &group.first_arm(),
        "arm",
        "change",
        "RFC (CPU time)",
    ]);
    let k = |v: f64| thousands((v / 1000.0).round() as i64);
    for (arm, c) in &compared {
        table.row(vec![
            format!("THPs, {}: {arm}", workers(case)),
            k(c.medians.0),
            k(c.medians.1),
            change(c.change),
            theirs.replace(" CPU time", ""),
        ]);
    }
    if !table.rows.is_empty() && group.clock() == Clock::Icount {
        out.mail.push(Block::Table(table));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_tell_the_order() {
        assert_eq!(steps(&[0, 1, 2, 3]), (3, 0));
        assert_eq!(steps(&[0, 3, 2, 1]), (0, 2));
        assert_eq!(steps(&[]), (0, 0));
        let points = by_address(&[900, 7, 6]);
        assert_eq!(points, [(0.0, 2.0), (1.0, 1.0), (2.0, 0.0)]);
    }

    #[test]
    fn cases_in_words() {
        assert_eq!(workers("thp/1"), "1 worker");
        assert_eq!(workers("base/2"), "2 workers");
        assert_eq!(pages("base/2"), "base pages");
    }
}
