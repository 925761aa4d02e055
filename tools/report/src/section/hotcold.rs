// SPDX-License-Identifier: GPL-2.0
//! The RFC's follow-up: a hot and a cold part, and reclaim asked for from outside.

use super::*;
use crate::text::mib;
use results::Lru;

const COUNTS: [Count; 4] = [
    ("splits", "THPs split", thousands, "33"),
    ("cold_swapped_pages", "cold MiB in swap", mib, "66"),
    ("hot_swapped_pages", "hot pages in swap", thousands, "0"),
    ("huge_kib", "THP KiB at the start", thousands, "–"),
];

pub fn section(groups: &[Group]) -> Result<Section> {
    let mut out = Section::new("hotcold", "hotcold: reclaim of cold THPs beside hot ones");
    out.text(
        "256 MiB in shuffled 2 MiB chunks, of which every fourth is read all the time; then `memory.reclaim` is asked for \
         64 MiB. `thp` is the case itself; `base` does the same with base pages, and `idle` asks for nothing: in neither \
         is anything split. The thread ran the multi-generational LRU, going by its figures; both LRUs are here, apart.",
    );
    for group in groups {
        out.text(format!(
            "### {} ({}, {})",
            group.plan,
            group.lru(),
            group.clock()
        ));
        counts(&mut out, group);
        if timed(group) {
            cost(&mut out, group);
        }
    }
    if groups.iter().any(|g| g.lru() == Lru::Classic) {
        out.text(
            "On the classic LRU reclaim takes more than it was asked for: the emulated disk has written a page before reclaim \
             puts it back on the LRU, so that folio_rotate_reclaimable() does not find it there, the clean page goes to the \
             head of the list, and reclaim goes on. The multi-generational LRU tries such folios once more.",
        );
    }
    Ok(out)
}

/// The case itself before its controls.
fn cases(group: &Group) -> Vec<String> {
    let mut cases = group.cases();
    cases.sort_by_key(|c| c != "thp");
    cases
}

fn counts(out: &mut Section, group: &Group) {
    let cases = cases(group);
    for case in &cases {
        let theirs = |metric: &str, thp: &'static str| match (case.as_str(), metric) {
            ("thp", _) => thp,
            (_, "splits") => "0",
            _ => "–",
        };
        let rows = COUNTS.map(|(m, l, s, t)| (m, l, s, theirs(m, t)));
        out.table(counts_table(group, case, case, &rows, "thread"));
        if case == "thp" && group.lru() == Lru::Mglru {
            let first = "64 MiB asked for, MGLRU";
            let table = counts_table(group, case, first, &rows[..3], "thread");
            out.mail.push(Block::Table(table));
        }
        out.note_gaps(group, case, &COUNTS.map(|c| c.0));
    }
    let all: Vec<&str> = cases.iter().map(String::as_str).collect();
    out.text(agreement(group, &all, &COUNTS.map(|c| c.0)));
    if !group.cases().iter().any(|c| c == "thp") {
        return;
    }
    let lru = group.lru();
    for ((metric, label, show, theirs), want) in COUNTS.into_iter().zip([33, 16896, 0]) {
        let mut verdict = counted(group, "thp", metric, |_| want..=want);
        if verdict == "differs" && lru == Lru::Classic {
            verdict = "differs: another LRU than the thread's";
        }
        out.claim(
            &format!("{label}, {lru} ({})", group.plan),
            theirs,
            by_arm(group, "thp", metric, show),
            verdict,
        );
    }
}

fn cost(out: &mut Section, group: &Group) {
    let mut table = comparison_head(group, "reclaim call");
    let mut all = Vec::new();
    for case in cases(group) {
        comparison_rows(&mut table, group, &case, &case, "reclaim_ns");
        let compared = comparisons(group, &case, "reclaim_ns");
        let what = format!(
            "reclaim call, {case}, {}, {}",
            group.lru(),
            unit(group.clock())
        );
        let ours = change_cell(&compared);
        match case.as_str() {
            "thp" => {
                let verdict = less_verdict(&compared);
                let theirs = "−9.90%, −8.45%, −9.66% CPU time";
                out.claim(&what, theirs, ours, &verdict);
                mail(out, group, &compared);
            }
            "base" => {
                let verdict = control_verdict(&compared);
                out.claim(&what, "+0.58%, +0.16%, −0.37% CPU time", ours, &verdict);
            }
            _ => {}
        }
        all.extend(compared);
    }
    if table.rows.is_empty() {
        out.text(how_compared(group, &all));
        return;
    }
    out.table(table);
    out.text(how_compared(group, &all));
    per_split(out, group);
    rounds(out, group);
}

/// A call splits one THP more or less by chance, so its cost is also told by the THP. Medians of boots.
fn per_split(out: &mut Section, group: &Group) {
    let cost = |arm: &str| {
        let calls = group.boots(arm, "thp", "reclaim_ns");
        let splits = group.boots(arm, "thp", "splits");
        let each: Vec<f64> = calls
            .iter()
            .zip(&splits)
            .filter(|(call, splits)| call.number == splits.number && splits.value > 0.0)
            .map(|(call, splits)| call.value / splits.value)
            .collect();
        crate::stats::median(&each)
    };
    let Some(first) = cost(&group.first_arm()) else {
        return;
    };
    let mut table = Table::new(&[
        format!("reclaim call, for each THP split, {}", unit(group.clock())),
        "THPs split".into(),
        "for each".into(),
        "change".into(),
    ]);
    for arm in group.arms() {
        if let Some(cost) = cost(&arm) {
            table.row(vec![
                arm.clone(),
                range(&group.counts(&arm, "thp", "splits"), thousands),
                thousands((cost / 1000.0).round() as i64),
                change(cost / first - 1.0),
            ]);
        }
    }
    out.table(table);
}

/// Round by round, as the thread has it.
fn rounds(out: &mut Section, group: &Group) {
    let mut table = Table::new(&[
        format!("thp, by round, {}", unit(group.clock())),
        format!("{} around it", group.first_arm()),
        "arm".into(),
        "change".into(),
        "thread".into(),
    ]);
    let theirs = ["−9.90%", "−8.45%", "−9.66%"];
    let k = |v: f64| thousands((v / 1000.0).round() as i64);
    for (arm, c) in comparisons(group, "thp", "reclaim_ns") {
        for (round, a, b, diff) in c.rounds {
            table.row(vec![
                format!("{arm}, round {}", round + 1),
                k(a),
                k(b),
                change(diff),
                theirs.get(round as usize).unwrap_or(&"–").to_string(),
            ]);
        }
    }
    out.table(table);
}

fn mail(out: &mut Section, group: &Group, compared: &[(String, Compare)]) {
    if group.lru() != Lru::Mglru || group.clock() != Clock::Icount {
        return;
    }
    let k = |v: f64| thousands((v / 1000.0).round() as i64);
    let mut table = Table::new(&["k instructions a call", &group.first_arm(), "arm", "change"]);
    for (arm, c) in compared {
        table.row(vec![
            format!("reclaim of cold THPs: {arm}"),
            k(c.medians.0),
            k(c.medians.1),
            change(c.change),
        ]);
    }
    if !table.rows.is_empty() {
        out.mail.push(Block::Table(table));
    }
}
