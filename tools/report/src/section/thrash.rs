// SPDX-License-Identifier: GPL-2.0
//! 2019's "scan anonymous pages on file refaults": a file read again and again beside anonymous memory that fills the
//! machine, and how often the refault comparison decides today.

mod exact;
mod page;
mod reach;

use super::*;
use crate::plot::{Line, Panel, Stroke};
use crate::text::mib;
use results::Lru;
use std::collections::BTreeMap;

/// A round is cached with fewer major faults than this share of the first round's.
const CACHED: f64 = 0.01;
const REFAULTS: [Count; 7] = [
    ("major_faults", "major faults", thousands, "–"),
    ("file_refaults", "file refaults", thousands, "–"),
    ("anon_refaults", "anonymous refaults", thousands, "–"),
    (
        "file_activates",
        "refaulted file pages activated",
        thousands,
        "–",
    ),
    ("read_pages", "MiB read", mib, "–"),
    ("swapin_pages", "MiB swapped in", mib, "–"),
    ("swapout_pages", "MiB swapped out", mib, "–"),
];
const POLICY: [(&str, &str); 13] = [
    ("policy_file_asked", "file list: asked"),
    ("policy_file_refaulted", "file list: refaulted"),
    ("policy_file_low", "file list: the ratio alone says low"),
    ("policy_file_decided", "file list: refaults decided"),
    (
        "policy_file_ignored",
        "file list: refaulted, and yet not deactivated",
    ),
    ("policy_anon_asked", "anonymous list: asked"),
    ("policy_anon_refaulted", "anonymous list: refaulted"),
    (
        "policy_anon_low",
        "anonymous list: the ratio alone says low",
    ),
    ("policy_anon_decided", "anonymous list: refaults decided"),
    ("policy_trim_mode", "cache_trim_mode set"),
    ("policy_trim_denied", "cache_trim_mode denied by refaults"),
    (
        "policy_trim_ignored",
        "cache_trim_mode set in spite of refaults",
    ),
    ("policy_moved", "not counted: refaults changed meanwhile"),
];

pub fn section(groups: &[Group]) -> Result<Section> {
    let mut out = Section::new(
        "thrash",
        "thrash: a file read again under anonymous pressure",
    );
    out.text(
        "In 2019, with 2048 MB of anonymous memory in a machine of 2 GB, each of ten rounds over a file of 200 MB took about \
         2.5 s: the file was read from disk each time. With the fix, that refaults alone make the inactive list low, the \
         rounds took 2.4 s at first and less than a millisecond from round 5 on: the file was cached from round 4. Here the \
         rounds are counted in faults and pages read.",
    );
    out.text(
        "`refault-blind` has the bug of 2019: the choice of lists to scan (cache_trim_mode) is deaf to refaults, deactivation \
         is not. `refault-removed` is deaf in both, which is another kernel: nothing drains the active list then until its size \
         alone makes the inactive one low, so anonymous pages are scanned after all.",
    );
    out.text(
        "The thread's own sizes do not tell the arms apart on this kernel. With memory cgroups the comparison looks at counters \
         that are flushed every two seconds, and takes its snapshot at the end of each reclaim, so hardly any reclaim sees a \
         refault. thrash-2019 is the thread's shape in a cgroup whose memory.stat is read every so many pages (`--stat-every`), as \
         monitors do, which flushes them; thrash-2019-asleep is the same without the monitor. All of it is about ten rounds: \
         as lists get short reclaim scans anonymous pages after all, and a blind kernel caches the file some time later.",
    );
    let lines = reach::lines(groups);
    reach::section(&mut out, &lines);
    for group in groups {
        shape(&mut out, group);
    }
    claims(&mut out, groups);
    reach::claims(&mut out, &lines);
    exact::claims(&mut out, groups);
    out.page = page::rst(&lines);
    Ok(out)
}

fn blind(arm: &str) -> bool {
    arm.contains("blind")
}

/// Has the comparison. `refault-removed` is neither this nor the bug of 2019.
fn heeds(arm: &str) -> bool {
    !arm.starts_with("refault-")
}

fn title(group: &Group) -> String {
    let mut title = format!("{} ({}", group.plan, group.lru());
    if !group.args().is_empty() {
        title += &format!("; `{}`", group.args());
    }
    title + ")"
}

/// Rounds of a shape; readers have one, and no round to compare it with.
fn rounds_case(group: &Group) -> Option<String> {
    let mut cases = group.cases();
    cases.retain(|c| c != "readers" && !c.ends_with("total"));
    cases.into_iter().next()
}

fn shape(out: &mut Section, group: &Group) {
    out.text(format!("### {}", title(group)));
    if let Some(case) = rounds_case(group) {
        rounds(out, group, &case);
        sums(out, group, &case, &format!("{case}, all rounds"));
        policy(out, group, &case);
        not_aged(out, group, &case);
    }
    if group.cases().iter().any(|c| c == "readers") {
        out.text("Readers of a file larger than memory, which no cache can hold: anonymous memory beside them should stay.");
        sums(out, group, "readers", "readers");
        policy(out, group, "readers");
    }
}

fn rounds(out: &mut Section, group: &Group, case: &str) {
    let panel = |title: &str, y: &str, metric: &str, scale: f64| Panel {
        title: title.into(),
        x: "round".into(),
        y: y.into(),
        lines: group
            .arms()
            .into_iter()
            .map(|arm| Line {
                points: group
                    .series(&arm, case, metric)
                    .into_iter()
                    .map(|(round, value)| (round, value * scale))
                    .collect(),
                label: arm,
                stroke: Stroke::Solid,
            })
            .filter(|l| !l.points.is_empty())
            .collect(),
        top: None,
    };
    let mut panels = vec![
        panel("major faults", "a round", "major_faults", 1.0),
        panel("file refaults", "a round", "file_refaults", 1.0),
        panel("read from disk", "MiB a round", "read_pages", 1.0 / 256.0),
    ];
    // A file that is only read() does not fault.
    panels.retain(|p| {
        p.lines
            .iter()
            .flat_map(|l| &l.points)
            .any(|(_, y)| *y > 0.0)
    });
    let words: Vec<String> = group
        .arms()
        .iter()
        .map(|a| format!("{a} {}", cached_words(cached_from(group, case, a))))
        .collect();
    out.plot(Plot {
        name: format!("{}-rounds", group.plan),
        caption: format!(
            "{}, {}: each round, medians of boots. Cached is a round with less than 1% of the first round's {}: {}.",
            group.plan,
            group.lru(),
            measure(group).replace('_', " "),
            words.join(", ")
        ),
        columns: panels.len().max(1),
        panels,
    });
}

/// What tells a cached round: mappings fault, and who only calls read() reads.
/// Not whether any fault was seen: one page of the program itself would decide.
fn measure(group: &Group) -> &'static str {
    let args = group.args().replace('=', " ");
    let words: Vec<&str> = args.split_whitespace().collect();
    match words.windows(2).any(|w| w == ["--touch", "read"]) {
        true => "read_pages",
        false => "major_faults",
    }
}

/// The first round from which on all are cached.
fn cached_from(group: &Group, case: &str, arm: &str) -> Option<u32> {
    let rounds = group.series(arm, case, measure(group));
    let limit = rounds.first()?.1 * CACHED;
    let last = rounds.iter().rposition(|r| r.1 > limit)?;
    rounds.get(last + 1).map(|r| r.0 as u32)
}

fn cached_words(round: Option<u32>) -> String {
    round.map_or("never cached".into(), |r| format!("cached from round {r}"))
}

fn sums(out: &mut Section, group: &Group, case: &str, first: &str) {
    let arms = group.arms();
    let mut head = vec![first.to_string()];
    head.extend(arms.iter().cloned());
    let mut table = Table::new(&head);
    for (metric, label, show, _) in REFAULTS {
        let cells: Vec<String> = arms
            .iter()
            .map(|a| range(&group.sums(a, case, metric), show))
            .collect();
        if cells.iter().any(|c| c != "–") {
            table.row([vec![label.to_string()], cells].concat());
        }
    }
    out.table(table);
    out.note_gaps(group, case, &REFAULTS.map(|r| r.0));
}

fn policy(out: &mut Section, group: &Group, case: &str) {
    let counts = |arm: &str, metric: &str| group.sums(arm, case, metric);
    let arms: Vec<String> = group
        .arms()
        .into_iter()
        .filter(|a| POLICY.iter().any(|(m, _)| !counts(a, m).is_empty()))
        .collect();
    if arms.is_empty() {
        return;
    }
    let asked = |arm: &String| {
        POLICY
            .iter()
            .any(|(m, _)| counts(arm, m).iter().any(|v| *v > 0))
    };
    if !arms.iter().any(asked) {
        out.text("Nobody asked whether a list is low: all counters of decisions are 0.");
        return;
    }
    let mut head = vec!["decisions".to_string()];
    head.extend(arms.iter().cloned());
    let mut table = Table::new(&head);
    for (metric, label) in POLICY {
        let cells: Vec<String> = arms
            .iter()
            .map(|a| range(&counts(a, metric), thousands))
            .collect();
        table.row([vec![label.to_string()], cells].concat());
    }
    out.table(table);
    out.text(
        "Refaults decided where they said low and the ratio alone did not; what they decide is whether active pages are \
         deactivated and whether reclaim may go for file pages alone (cache_trim_mode).",
    );
}

/// Why MGLRU may thrash where anonymous pages are idle.
fn not_aged(out: &mut Section, group: &Group, case: &str) {
    let stuck = |arm: &String| {
        let scanned = group.sums(arm, case, "scanned_anon_pages");
        !scanned.is_empty()
            && scanned.iter().all(|n| *n == 0)
            && cached_from(group, case, arm).is_none()
    };
    if group.lru() == Lru::Mglru && group.arms().iter().any(stuck) {
        out.text(
            "No anonymous page was scanned here, and no round is cached. The pages are in the two youngest generations, which are \
             never evicted from. They would get older if reclaim made a new generation, which it does once neither type has \
             older ones; but pages of a file that is read enter the oldest, so files always have. That refaults say anonymous \
             pages should go (get_type_to_scan()) is of no use then: reclaim finds none to take, and takes file pages.",
        );
    }
}

/// Whether being blind made every boot read or fault more than any boot that is not.
fn separates(group: &Group) -> Option<bool> {
    let case = rounds_case(group)?;
    let metric = measure(group);
    let all = |arm: &String| group.sums(arm, &case, metric);
    let arms = group.arms();
    let least = arms.iter().filter(|a| blind(a)).flat_map(all).min()?;
    let most = arms.iter().filter(|a| heeds(a)).flat_map(all).max()?;
    Some(least as f64 > 1.5 * most as f64)
}

fn claims(out: &mut Section, groups: &[Group]) {
    claim_sighted(out, groups);
    claim_blind(out, groups);
    claim_decided(out, groups);
    for group in groups {
        claim_swap(out, group);
    }
}

/// Shapes of the same result share a cell.
fn claim_sighted(out: &mut Section, groups: &[Group]) {
    let mut by_words: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // The multi-generational LRU does not ask, so nothing is heeded there.
    for group in groups.iter().filter(|g| g.lru() == Lru::Classic) {
        // What is spilled is read once: there is no round that could be cached.
        let Some(case) = rounds_case(group).filter(|c| c != "spill") else {
            continue;
        };
        let arms: Vec<String> = group.arms().into_iter().filter(|a| heeds(a)).collect();
        let rounds: Vec<Option<u32>> = arms.iter().map(|a| cached_from(group, &case, a)).collect();
        let words = match rounds.first() {
            None => continue,
            Some(first) if rounds.iter().all(|r| r == first) => cached_words(*first),
            Some(_) => {
                let each = arms.iter().zip(&rounds);
                let each: Vec<String> = each
                    .map(|(a, r)| format!("{a} {}", cached_words(*r)))
                    .collect();
                each.join(", ")
            }
        };
        by_words.entry(words).or_default().push(group.plan);
    }
    if by_words.is_empty() {
        return;
    }
    let cells: Vec<String> = by_words
        .iter()
        .map(|(words, plans)| format!("{words} ({})", plans.join(", ")))
        .collect();
    let verdict = match by_words.keys().any(|w| w.contains("never")) {
        true => "not in every shape",
        false => "later rounds cached, as in the thread",
    };
    let ours = cells.join("; ");
    out.mail.push(Block::Text(format!(
        "A file read again under anonymous pressure, refaults heeded: {ours}."
    )));
    out.claim(
        "file rounds, refaults heeded",
        "cached from round 4",
        ours,
        verdict,
    );
}

fn claim_blind(out: &mut Section, groups: &[Group]) {
    let tried: Vec<(&str, bool)> = groups
        .iter()
        .filter_map(|g| Some((g.plan, separates(g)?)))
        .collect();
    if tried.is_empty() {
        return;
    }
    let found: Vec<&str> = tried.iter().filter(|t| t.1).map(|t| t.0).collect();
    let (ours, verdict) = match found[..] {
        [] => (
            format!(
                "reads and faults no more than sighted in any of {} shapes",
                tried.len()
            ),
            "differs: 2019 does not come back",
        ),
        _ if found.len() == tried.len() => (format!("thrashes in {}", join(&found)), "same"),
        _ => {
            let others: Vec<&str> = tried.iter().filter(|t| !t.1).map(|t| t.0).collect();
            (
                format!(
                    "thrashes in {}; no more than sighted in {}",
                    join(&found),
                    join(&others)
                ),
                "in some shapes",
            )
        }
    };
    out.mail.push(Block::Text(format!(
        "The same with refaults ignored, as in 2019: {ours}."
    )));
    out.claim(
        "file rounds, refaults ignored",
        "never cached",
        ours,
        verdict,
    );
}

/// In how many shapes refaults changed a decision, and in which most.
fn claim_decided(out: &mut Section, groups: &[Group]) {
    let mut seen: Vec<(i64, i64, String)> = Vec::new();
    for group in groups {
        let Some(case) = rounds_case(group) else {
            continue;
        };
        for arm in group.arms().into_iter().filter(|a| heeds(a)) {
            let total = |suffix: &str| -> Option<i64> {
                let of = |list: &str| {
                    let metric = format!("policy_{list}_{suffix}");
                    group.sums(&arm, &case, &metric).into_iter().max()
                };
                Some(of("file")? + of("anon")?)
            };
            if let (Some(decided), Some(asked)) = (total("decided"), total("asked")) {
                seen.push((decided, asked, format!("{} of {}", arm, group.plan)));
            }
        }
    }
    let Some((decided, asked, most)) = seen.iter().max_by_key(|s| s.0) else {
        return;
    };
    let ours = match seen.iter().filter(|s| s.0 > 0).count() {
        0 => format!("none in {} runs of an arm and a shape", seen.len()),
        n => format!(
            "some in {n} of {} pairs of arm and shape; at most {} of {} ({most})",
            seen.len(),
            thousands(*decided),
            thousands(*asked)
        ),
    };
    out.mail.push(Block::Text(format!(
        "Decisions on deactivation that the refault comparison changed: {ours}."
    )));
    out.claim("decisions that refaults changed", "–", ours, "counted");
}

fn claim_swap(out: &mut Section, group: &Group) {
    let swapped = |case: &str| -> Vec<String> {
        let arms = group.arms().into_iter();
        arms.map(|a| (range(&group.sums(&a, case, "swapout_pages"), thousands), a))
            .filter(|(cell, _)| cell != "–")
            .map(|(cell, a)| format!("{a} {cell}"))
            .collect()
    };
    if group.cases().iter().any(|c| c == "readers") {
        out.claim(
            &format!(
                "pages swapped beside readers, {}, {}",
                group.plan,
                group.lru()
            ),
            "–",
            swapped("readers").join(", "),
            "counted",
        );
    }
    let args = group.args().replace('=', " ");
    if args
        .split_whitespace()
        .collect::<Vec<_>>()
        .windows(2)
        .any(|w| w == ["--swappiness", "0"])
    {
        let cells = group
            .cases()
            .iter()
            .filter(|c| !c.ends_with("total"))
            .flat_map(|c| swapped(c))
            .collect::<Vec<_>>();
        let none = !cells.is_empty() && cells.iter().all(|c| c.ends_with(" 0"));
        out.claim(
            &format!("pages swapped with swappiness 0, {}", group.plan),
            "–",
            cells.join(", "),
            if none { "respected" } else { "not respected" },
        );
    }
}
