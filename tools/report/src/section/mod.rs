// SPDX-License-Identifier: GPL-2.0
//! What the report says about each workload: one file each, and here what they share.

mod cost;
mod hotcold;
mod mthp;
mod nonlinear;
mod pageout;
mod size;
mod thrash;

use crate::lab::{Group, Lab};
use crate::plot::Plot;
use crate::stats::{CONFIDENCE, Compare, Outcome, compare, needed};
use crate::text::{Table, change, join, range, thousands};
use anyhow::Result;
use results::Clock;
use std::ops::RangeInclusive;

pub enum Block {
    Text(String),
    Table(Table),
    Plot(Plot),
}

/// One row of the summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub what: String,
    pub thread: String,
    pub ours: String,
    pub verdict: String,
}

pub struct Section {
    pub workload: &'static str,
    pub title: String,
    pub blocks: Vec<Block>,
    pub claims: Vec<Claim>,
    /// What of it the cover letter has.
    pub mail: Vec<Block>,
    /// The same for the follow-up's.
    pub follow_up: Vec<Block>,
    /// What of it the kernel's documentation has.
    pub page: Option<String>,
}

/// Metric, label, how it is shown, the thread's figure.
type Count<'a> = (&'a str, &'a str, fn(i64) -> String, &'a str);

type Writer = fn(&[Group]) -> Result<Section>;

const ALL: [(&str, Writer); 6] = [
    ("pageout", pageout::section),
    ("hotcold", hotcold::section),
    ("thrash", thrash::section),
    ("mthp-swpout", mthp::section),
    ("nonlinear", nonlinear::section),
    ("cost", cost::section),
];

/// Those that ran, and the names of those that did not.
pub fn all(lab: &Lab) -> Result<(Vec<Section>, Vec<&'static str>)> {
    let (mut sections, mut absent) = (Vec::new(), Vec::new());
    for (name, write) in ALL {
        match &lab.groups(name)[..] {
            [] => absent.push(name),
            groups => sections.push(write(groups)?),
        }
    }
    sections.extend(size::section(&lab.info));
    Ok((sections, absent))
}

impl Section {
    fn new(workload: &'static str, title: &str) -> Section {
        Section {
            workload,
            title: title.into(),
            blocks: Vec::new(),
            claims: Vec::new(),
            mail: Vec::new(),
            follow_up: Vec::new(),
            page: None,
        }
    }

    fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    fn plot(&mut self, plot: Plot) {
        if plot.panels.iter().any(|p| !p.lines.is_empty()) {
            self.blocks.push(Block::Plot(plot));
        }
    }

    fn claim(&mut self, what: &str, thread: &str, ours: String, verdict: &str) {
        self.claims.push(Claim {
            what: what.into(),
            thread: thread.into(),
            ours,
            verdict: verdict.into(),
        });
    }

    fn note_gaps(&mut self, group: &Group, case: &str, metrics: &[&str]) {
        let gaps = group.gaps(case, metrics);
        if !gaps.is_empty() {
            self.text(format!("**Missing:** {}.", join(&gaps)));
        }
    }
}

/// `base 2,047, c 64 and rust 64`, in short when all say the same.
fn by_arm(group: &Group, case: &str, metric: &str, show: fn(i64) -> String) -> String {
    let cells: Vec<(String, String)> = group
        .arms()
        .into_iter()
        .map(|a| {
            let counts = group.counts(&a, case, metric);
            (a, range(&counts, show))
        })
        .filter(|(_, cell)| cell != "–")
        .collect();
    match &cells[..] {
        [] => "–".into(),
        [(_, first), rest @ ..] if !rest.is_empty() && rest.iter().all(|(_, c)| c == first) => {
            format!("{first} in each arm")
        }
        cells => {
            let words: Vec<String> = cells.iter().map(|(a, c)| format!("{a} {c}")).collect();
            words.join(", ")
        }
    }
}

/// Whether every boot of every arm counted what the thread did.
fn counted(
    group: &Group,
    case: &str,
    metric: &str,
    want: impl Fn(&str) -> RangeInclusive<i64>,
) -> &'static str {
    let mut seen = false;
    for arm in group.arms() {
        for count in group.counts(&arm, case, metric) {
            seen = true;
            if !want(&arm).contains(&count) {
                return "differs";
            }
        }
    }
    if seen { "same" } else { "not measured" }
}

/// A table of counts, an arm a column, and whether all boots agree.
fn counts_table(group: &Group, case: &str, first: &str, rows: &[Count], thread: &str) -> Table {
    let arms = group.arms();
    let mut head = vec![first.to_string()];
    head.extend(arms.iter().cloned());
    head.push(thread.into());
    let mut table = Table::new(&head);
    for (metric, label, show, theirs) in rows {
        let cells: Vec<String> = arms
            .iter()
            .map(|a| range(&group.counts(a, case, metric), show))
            .collect();
        if cells.iter().any(|c| c != "–") {
            let mut row = vec![label.to_string()];
            row.extend(cells);
            row.push(theirs.to_string());
            table.row(row);
        }
    }
    table
}

/// How far boots agree, for below tables of counts.
fn agreement(group: &Group, cases: &[&str], metrics: &[&str]) -> String {
    let boots: Vec<String> = group
        .arms()
        .iter()
        .map(|a| {
            let n = group.runs.iter().filter(|r| r.meta.arm == *a).count();
            format!("{n} of {a}")
        })
        .collect();
    let differ = group.arms().iter().any(|arm| {
        let each = cases
            .iter()
            .flat_map(|c| metrics.iter().map(move |m| (c, m)));
        each.map(|(case, metric)| group.counts(arm, case, metric))
            .any(|counts| counts.iter().any(|c| c != &counts[0]))
    });
    let agree = if differ {
        "where they differ the range is shown"
    } else {
        "all samples of all boots of an arm agree on every value"
    };
    format!("Boots: {}; {agree}.", join(&boots))
}

/// What is not told from noise: as a share of the first arm.
fn noise(clock: Clock) -> f64 {
    match clock {
        Clock::Cpu => 0.02,
        // Two boots of one kernel agree within 0.3%.
        Clock::Icount | Clock::Counts => 0.005,
    }
}

/// What a `_ns` value is, once divided by 1000.
fn unit(clock: Clock) -> &'static str {
    match clock {
        Clock::Cpu => "CPU µs",
        Clock::Icount | Clock::Counts => "instructions (k)",
    }
}

/// Time of an emulated CPU that counts nothing is no result.
fn timed(group: &Group) -> bool {
    group.clock() != Clock::Counts
}

/// Each other arm against the first.
fn comparisons(group: &Group, case: &str, metric: &str) -> Vec<(String, Compare)> {
    let first = group.first_arm();
    let a = group.boots(&first, case, metric);
    let others = group.arms().into_iter().filter(|arm| *arm != first);
    others
        .filter_map(|arm| {
            let b = group.boots(&arm, case, metric);
            let compared = compare(&a, &b, noise(group.clock()))?;
            Some((arm, compared))
        })
        .collect()
}

fn comparison_head(group: &Group, what: &str) -> Table {
    let first = group.first_arm();
    Table::new(&[
        format!("{what}, {}", unit(group.clock())),
        format!("{first} (A)"),
        "arm (B)".into(),
        "change".into(),
        "interval".into(),
        "drift of A".into(),
        "claimed".into(),
    ])
}

fn comparison_rows(table: &mut Table, group: &Group, label: &str, case: &str, metric: &str) {
    let k = |v: f64| thousands((v / 1000.0).round() as i64);
    for (arm, c) in comparisons(group, case, metric) {
        table.row(vec![
            format!("{label}: {arm}"),
            k(c.medians.0),
            k(c.medians.1),
            change(c.change),
            format!(
                "{} to {} ({:.0}%)",
                change(c.interval.0),
                change(c.interval.1),
                c.confidence * 100.0
            ),
            c.drift
                .map_or("unknown".into(), |d| format!("{:.2}%", d * 100.0)),
            claimed(&c),
        ]);
    }
}

/// With the test's p where there are boots enough for one to mean something.
fn claimed(compared: &Compare) -> String {
    match compared.outcome {
        Outcome::Changed if compared.confidence >= CONFIDENCE => {
            format!("{}, p {:.3}", verdict(compared), compared.p)
        }
        _ => verdict(compared).into(),
    }
}

fn verdict(compared: &Compare) -> &'static str {
    match compared.outcome {
        Outcome::Changed if compared.change < 0.0 => "less",
        Outcome::Changed => "more",
        Outcome::Unchanged => "no difference",
        Outcome::Unsure => "nothing: interval holds 0",
        Outcome::Drifted => "nothing: A drifts as much",
        Outcome::DriftUnknown => "nothing: A booted once",
        Outcome::TooFew => "nothing: too few boots",
    }
}

/// How to read the table above; the same for all.
fn how_compared(group: &Group, compared: &[(String, Compare)]) -> String {
    let Some((_, c)) = compared.first() else {
        return match group.arms().len() {
            0 | 1 => format!(
                "Only {} ran with this clock: there is nothing to compare.",
                group.first_arm()
            ),
            _ => "Nothing was timed: there is nothing to compare.".into(),
        };
    };
    let mut text = format!(
        "Medians of boots ({} of A, {} of B and more); the interval is exact (pairs of boots, Mann-Whitney), its confidence in \
         brackets. A difference is claimed when its whole interval is beyond {:.1}% and beyond the drift of A: how far apart \
         A's own boots are.",
        c.boots.0,
        c.boots.1,
        noise(group.clock()) * 100.0
    );
    let least = compared.iter().map(|(_, c)| c.boots.1).min().unwrap_or(0);
    match needed(c.boots.0) {
        _ if compared.iter().all(|(_, c)| c.confidence >= CONFIDENCE) => {}
        Some(n) => {
            text +=
                &format!(" A 95% interval needs {n} boots of B with these of A; there are {least}.")
        }
        None => text += " A 95% interval needs at least four boots of each: `make lab ROUNDS=4`.",
    }
    text
}

/// Changes of all arms in one cell, and whether they are what the thread saw.
fn change_cell(compared: &[(String, Compare)]) -> String {
    let cells: Vec<String> = compared
        .iter()
        .map(|(arm, c)| format!("{arm} {}", change(c.change)))
        .collect();
    if cells.is_empty() {
        return "–".into();
    }
    cells.join(", ")
}

/// Of a metric that the thread saw go down.
fn less_verdict(compared: &[(String, Compare)]) -> String {
    match compared {
        [] => "not measured".into(),
        all if all.iter().all(|(_, c)| verdict(c) == "less") => "less, as in the thread".into(),
        all => {
            let words: Vec<String> = all
                .iter()
                .map(|(arm, c)| format!("{arm}: {}", verdict(c)))
                .collect();
            format!("not shown ({})", words.join("; "))
        }
    }
}

/// Of a control, which must not change.
fn control_verdict(compared: &[(String, Compare)]) -> String {
    match compared {
        [] => "not measured".into(),
        all if all.iter().all(|(_, c)| c.outcome == Outcome::Unchanged) => {
            "no difference, as in the thread".into()
        }
        all if all
            .iter()
            .all(|(_, c)| matches!(c.outcome, Outcome::Unchanged | Outcome::Unsure)) =>
        {
            "no clear change, as in the thread".into()
        }
        all => {
            let words: Vec<String> = all
                .iter()
                .map(|(arm, c)| format!("{arm}: {}", verdict(c)))
                .collect();
            words.join("; ")
        }
    }
}
