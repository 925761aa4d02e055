// SPDX-License-Identifier: GPL-2.0
//! 2004's test of swapping nonlinear mappings, as far as today's kernel has them.

use super::*;
use crate::plot::{Line, Panel, Stroke};

const TOTALS: [(&str, &str); 7] = [
    ("faults", "faults"),
    ("major_faults", "major faults"),
    ("swapin_kib", "KiB swapped in"),
    ("swapout_kib", "KiB swapped out"),
    ("most_swapped_kib", "most KiB swapped at once"),
    ("most_blocked", "most tasks blocked at once"),
    ("vmas", "mappings of a task"),
];

pub fn section(groups: &[Group]) -> Result<Section> {
    let mut out = Section::new(
        "nonlinear",
        "nonlinear: many tasks over a shuffled mapping, far past memory",
    );
    out.text(
        "In 2004 two hundred tasks that mapped 1.7 GB each, out of order, pushed a machine into swap: it worked, slowly, \
         against a linear mapping that was smoother. Since 4.0 remap_file_pages() makes ordinary mappings, one a page at \
         worst, so what is left to see is that they swap, what they cost in faults, and where max_map_count ends it. \
         First-touch is the state that 2004's `BUG_ON(!page->mapcount)` caught: many threads touching new pages while \
         reclaim runs, with DEBUG_VM on.",
    );
    for group in groups {
        lines(&mut out, group);
        totals(&mut out, group);
        other(&mut out, group);
    }
    Ok(out)
}

fn mapped(group: &Group) -> Vec<String> {
    let mut cases = group.cases();
    cases.retain(|c| c == "nonlinear" || c == "linear");
    // The shuffled one first.
    cases.reverse();
    cases
}

/// What vmstat would have shown.
fn lines(out: &mut Section, group: &Group) {
    let arm = group.first_arm();
    let panel = |case: &str, title: &str, metrics: &[(&str, &str)]| Panel {
        title: format!("{case}: {title}"),
        x: "guest second".into(),
        y: "MiB".into(),
        lines: metrics
            .iter()
            .map(|(metric, label)| Line {
                label: label.to_string(),
                stroke: Stroke::Solid,
                points: group
                    .series(&arm, case, metric)
                    .into_iter()
                    .map(|(s, kib)| (s, kib / 1024.0))
                    .collect(),
            })
            .filter(|l| !l.points.is_empty())
            .collect(),
        top: None,
    };
    let mut panels = Vec::new();
    for case in mapped(group) {
        panels.push(panel(
            &case,
            "memory",
            &[("swapped_kib", "swapped"), ("free_kib", "free")],
        ));
        panels.push(panel(
            &case,
            "a second",
            &[("swapin_kib", "swapped in"), ("swapout_kib", "swapped out")],
        ));
    }
    panels.retain(|p| !p.lines.is_empty());
    if panels.is_empty() {
        return;
    }
    out.plot(Plot {
        name: format!("{}-vmstat", group.plan),
        caption: format!(
            "{}, arm {arm}: left what is swapped and what is free, right what went in and out each second of the guest's \
             clock, which is no time of any machine.",
            group.plan
        ),
        columns: 2,
        panels,
    });
}

fn totals(out: &mut Section, group: &Group) {
    let cases = mapped(group);
    let mut head = vec![format!("{} ({})", group.plan, group.lru())];
    for arm in group.arms() {
        head.extend(cases.iter().map(|c| format!("{arm}, {c}")));
    }
    let mut table = Table::new(&head);
    let cells = |metric: &str| -> Vec<Vec<i64>> {
        let arms = group.arms();
        let each = arms.iter().flat_map(|a| cases.iter().map(move |c| (a, c)));
        each.map(|(a, c)| group.counts(a, &format!("{c}/total"), metric))
            .collect()
    };
    for (metric, label) in TOTALS {
        let cells = cells(metric);
        if cells.iter().any(|c| !c.is_empty()) {
            let shown = cells.iter().map(|c| range(c, thousands));
            table.row(std::iter::once(label.to_string()).chain(shown).collect());
        }
    }
    out.table(table);
    for case in &cases {
        let out_kib = by_arm(group, &format!("{case}/total"), "swapout_kib", |k| {
            thousands(k / 1024)
        });
        if out_kib != "–" {
            let moved = cells("swapout_kib").iter().flatten().any(|&k| k > 0);
            out.claim(
                &format!("{case} mappings swap, MiB written ({})", group.plan),
                "works, hundreds of MB",
                out_kib,
                if moved {
                    "works, data verified"
                } else {
                    "did not swap"
                },
            );
        }
    }
}

/// Cases whose values are shown as they come.
fn other(out: &mut Section, group: &Group) {
    for (case, title) in [
        ("map-limit", "max_map_count"),
        ("first-touch", "first touch under reclaim"),
    ] {
        let metrics: Vec<String> = group
            .metrics(case)
            .into_iter()
            .filter(|m| !m.ends_with("_ns") || timed(group))
            .collect();
        if metrics.is_empty() {
            continue;
        }
        let mut head = vec![format!("{title} ({})", group.plan)];
        head.extend(group.arms());
        let mut table = Table::new(&head);
        for metric in metrics {
            let arms = group.arms().into_iter();
            let cells = arms.map(|a| range(&group.sums(&a, case, &metric), thousands));
            table.row(
                std::iter::once(metric.replace('_', " "))
                    .chain(cells)
                    .collect(),
            );
        }
        out.table(table);
        let held = |metric: &str| {
            let arms = group.arms();
            let mut all = arms
                .iter()
                .flat_map(|a| group.counts(a, case, metric))
                .peekable();
            all.peek().is_some() && all.all(|v| v > 0)
        };
        if case == "map-limit" {
            let met = held("limit_met");
            out.claim(
                &format!(
                    "pieces of one page that a process may have ({})",
                    group.plan
                ),
                "as many as wanted",
                by_arm(group, case, "pieces", thousands),
                match met {
                    true => "differs: a mapping a piece, vm.max_map_count ends it",
                    false => "limit not met",
                },
            );
        }
        if case == "first-touch" {
            let swapped = held("swapout_kib");
            out.claim(
                &format!("first touch under reclaim ({})", group.plan),
                "a BUG, fixed",
                "kernel log clean".into(),
                match swapped {
                    true => "works, data verified",
                    false => "nothing was reclaimed",
                },
            );
        }
    }
}
