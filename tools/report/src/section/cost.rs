// SPDX-License-Identifier: GPL-2.0
//! What the two policies cost in instructions, each by itself, and the split that the order is part of.

use super::*;
use crate::plot::{Line, Panel, Stroke};

/// Children of a THP of 512 pages.
const CHILDREN: &str = "511";
/// Growth is taken between these two.
const GROWTH: (i64, i64) = (511, 1023);
/// The order in Rust may take so much of the RFC's loop.
const MOST_PERMILLE: i64 = 500;
/// The decision in Rust may differ from C by so many instructions.
const NEAR: i64 = 2;

/// An implementation as one arm has it.
struct Column {
    arm: String,
    metric: &'static str,
    label: String,
}

const IMPLEMENTATIONS: [(&str, &str); 4] = [
    ("stub_instructions", "stub"),
    ("move_instructions", "RFC's loop"),
    ("c_instructions", "c"),
    ("rust_instructions", "rust"),
];

const INPUTS: [(&str, &str); 8] = [
    ("decide/refault", "refaults decide"),
    ("decide/small", "195 MB, ratio 1: low"),
    ("decide/small-not-low", "195 MB, ratio 1: not low"),
    ("decide/8gb", "8 GB, ratio 8: low"),
    ("decide/8gb-not-low", "8 GB, ratio 8: not low"),
    (
        "ask/refault",
        "inactive_list_is_low(), after refaults: refaults decide",
    ),
    (
        "ask/quiet",
        "inactive_list_is_low(), no refaults: sizes are read too",
    ),
    (
        "ask/sizes",
        "inactive_list_is_low(), not asked for refaults",
    ),
];

pub fn section(groups: &[Group]) -> Result<Section> {
    let mut out = Section::new("cost", "cost: instructions of the two policies");
    out.text(
        "A kernel with a benchmark in it (lab/patches/cost.patch) calls the implementations one after the other, \
         interrupts off, and reads the TSC, which under icount counts instructions: the run is refused unless 1,000 \
         instructions count as 1,000. Figures are without the call itself. The order and the answer are checked each \
         time. They are instructions, not time: a `list_move_tail()` and a store in place differ in more than that.",
    );
    for group in groups {
        order(&mut out, group);
        decision(&mut out, group);
        split(&mut out, group);
    }
    Ok(out)
}

/// The arm that has all implementations in one kernel.
fn main_arm(group: &Group) -> Option<String> {
    let case = format!("order/{CHILDREN}");
    let all = |arm: &String| !group.counts(arm, &case, "rust_instructions").is_empty();
    group.arms().into_iter().find(all)
}

fn least(group: &Group, arm: &str, case: &str, metric: &str) -> Option<i64> {
    group.counts(arm, case, metric).into_iter().min()
}

fn cell(group: &Group, arm: &str, case: &str, metric: &str) -> String {
    range(&group.counts(arm, case, metric), thousands)
}

/// How an implementation of another arm is called beside those of the main one.
fn in_words(implementation: &str, arm: &str, main: &str) -> String {
    match arm {
        _ if arm == main => implementation.into(),
        "cost-inline" => format!("{implementation}, helpers inlined"),
        _ => format!("{implementation} in {arm}"),
    }
}

/// The row of the plan, where it is not the plain one.
fn suffix(group: &Group) -> String {
    match group.plan {
        "cost" | "cost-split" => String::new(),
        other => format!(" ({other})"),
    }
}

/// All of the main arm, and what other arms were built with.
fn columns(group: &Group, main: &str) -> Vec<Column> {
    let mut columns = Vec::new();
    for arm in group.arms() {
        for (metric, label) in IMPLEMENTATIONS {
            let case = format!("order/{CHILDREN}");
            if group.counts(&arm, &case, metric).is_empty() {
                continue;
            }
            let built_with = if arm == "cost-c" { "c" } else { "rust" };
            if arm == main {
                columns.push(Column {
                    arm: arm.clone(),
                    metric,
                    label: label.into(),
                });
            } else if label == built_with {
                columns.push(Column {
                    arm: arm.clone(),
                    metric,
                    label: in_words(label, &arm, main),
                });
            }
        }
    }
    columns
}

fn sizes(group: &Group) -> Vec<i64> {
    let mut sizes: Vec<i64> = group
        .cases()
        .iter()
        .filter_map(|c| c.strip_prefix("order/")?.parse().ok())
        .collect();
    sizes.sort_unstable();
    sizes
}

fn order(out: &mut Section, group: &Group) {
    let Some(main) = main_arm(group) else { return };
    let columns = columns(group, &main);
    let mut head = vec![format!("children in order, instructions ({})", group.plan)];
    head.extend(columns.iter().map(|c| c.label.clone()));
    let mut table = Table::new(&head);
    for n in sizes(group) {
        let case = format!("order/{n}");
        let mut row = vec![thousands(n)];
        row.extend(columns.iter().map(|c| cell(group, &c.arm, &case, c.metric)));
        table.row(row);
    }
    let mut row = vec!["each further child".to_string()];
    row.extend(columns.iter().map(|c| growth(group, c)));
    table.row(row);
    out.table(table);
    out.text(
        "`stub` puts the children on a list in one go and does nothing more; it is part of the others, and a split does \
         it one by one. `RFC's loop` is list_move_tail() from the tail.",
    );
    let grows = |label: &str| {
        let column = columns.iter().find(|c| c.label == label);
        column.map(|c| growth(group, c))
    };
    if grows("rust").is_some() && grows("rust") == grows("c") {
        out.text(
            "A child takes as many instructions in Rust as in C. What Rust takes more is once a split: C helpers that it \
             calls where C has them inlined, and a list on the stack that its drop empties.",
        );
    }
    out.text(spread(group, "order/"));
    plot(out, group, &columns);
    claim_order(out, group, &main);
}

fn growth(group: &Group, column: &Column) -> String {
    let at = |n: i64| least(group, &column.arm, &format!("order/{n}"), column.metric);
    match (at(GROWTH.0), at(GROWTH.1)) {
        (Some(a), Some(b)) => format!("{:.2}", (b - a) as f64 / (GROWTH.1 - GROWTH.0) as f64),
        _ => "–".into(),
    }
}

/// Whether turns and boots agree.
fn spread(group: &Group, prefix: &str) -> String {
    let mut most = 0;
    let mut apart = 0;
    for arm in group.arms() {
        for case in group.cases().iter().filter(|c| c.starts_with(prefix)) {
            let turns = group.counts(&arm, case, "spread_instructions");
            most = most.max(turns.into_iter().max().unwrap_or(0));
            for metric in group.metrics(case) {
                let boots = group.counts(&arm, case, &metric);
                if let (Some(a), Some(b)) = (boots.iter().min(), boots.iter().max()) {
                    apart = apart.max(b - a);
                }
            }
        }
    }
    let boots = group.runs.len();
    match (most, apart) {
        (0, 0) => format!("All turns, and all {boots} boots by arm, agree to the instruction."),
        _ => format!(
            "Turns differ by at most {most} instructions, and the {boots} boots, by arm, by at most {apart}."
        ),
    }
}

fn plot(out: &mut Section, group: &Group, columns: &[Column]) {
    // The others lie on these.
    let names = ["RFC's loop", "c", "rust"];
    let shown = columns.iter().filter(|c| names.contains(&c.label.as_str()));
    let lines: Vec<Line> = shown
        .map(|c| Line {
            label: c.label.clone(),
            stroke: Stroke::Solid,
            points: sizes(group)
                .into_iter()
                .filter_map(|n| {
                    let value = least(group, &c.arm, &format!("order/{n}"), c.metric)?;
                    Some((n as f64, value as f64))
                })
                .collect(),
        })
        .collect();
    let ends: Vec<String> = lines
        .iter()
        .filter_map(|l| {
            let (n, value) = l.points.last()?;
            let (n, value) = (thousands(*n as i64), thousands(*value as i64));
            Some(format!("{} {value} for {n}", l.label))
        })
        .collect();
    out.plot(Plot {
        name: format!("{}-order", group.plan),
        caption: format!(
            "{}: instructions to put children in order, by their number: {}.",
            group.plan,
            join(&ends)
        ),
        columns: 1,
        panels: vec![Panel {
            title: "putting the children of a split in order".into(),
            x: "children".into(),
            y: "instructions".into(),
            lines,
            top: None,
        }],
    });
}

fn claim_order(out: &mut Section, group: &Group, main: &str) {
    let case = format!("order/{CHILDREN}");
    let of = |metric| least(group, main, &case, metric);
    let (Some(stub), Some(moved), Some(c), Some(rust)) = (
        of("stub_instructions"),
        of("move_instructions"),
        of("c_instructions"),
        of("rust_instructions"),
    ) else {
        return;
    };
    let shares = group.counts(main, &case, "rust_of_move_permille");
    let verdict = match shares.into_iter().max() {
        Some(share) if share <= MOST_PERMILLE => "Rust: at most half",
        Some(_) => "Rust: more than half",
        None => "not measured",
    };
    let what = format!(
        "order of {CHILDREN} children, instructions{}",
        suffix(group)
    );
    let shown = |n: i64| thousands(n - stub);
    out.claim(
        &what,
        &format!("the RFC's loop: {}", shown(moved)),
        format!("c {}, rust {}", shown(c), shown(rust)),
        verdict,
    );
    if group.plan == "cost" {
        out.mail.push(Block::Text(
            "The policies by themselves, interrupts off, and so to the instruction:".into(),
        ));
        let mut table = Table::new(&["instructions", "the RFC's loop", "c", "rust"]);
        table.row(vec![
            format!("order of {CHILDREN} children"),
            shown(moved),
            shown(c),
            shown(rust),
        ]);
        out.mail.push(Block::Table(table));
    }
}

fn decision(out: &mut Section, group: &Group) {
    let Some(main) = main_arm(group) else { return };
    let others = group.arms().into_iter().filter(|a| *a != main);
    let rust_arms: Vec<String> = std::iter::once(main.clone())
        .chain(others.filter(|a| a != "cost-c"))
        .collect();
    let mut head = vec![
        format!("decision, instructions ({})", group.plan),
        "c".into(),
    ];
    head.extend(rust_arms.iter().map(|a| in_words("rust", a, &main)));
    let mut table = Table::new(&head);
    for (case, label) in INPUTS {
        // What asks is built with one implementation.
        let c_arm = if case.starts_with("ask/") {
            "cost-c"
        } else {
            &main
        };
        let mut row = vec![
            label.to_string(),
            cell(group, c_arm, case, "c_instructions"),
        ];
        row.extend(
            rust_arms
                .iter()
                .map(|arm| cell(group, arm, case, "rust_instructions")),
        );
        if row[1..].iter().any(|c| c != "–") {
            table.row(row);
        }
    }
    out.table(table);
    out.text(spread(group, "decide/"));
    claim_decision(out, group, &rust_arms);
}

fn claim_decision(out: &mut Section, group: &Group, arms: &[String]) {
    let metric = "rust_above_c_instructions";
    let above = |arm: &str| -> Vec<i64> {
        let cases = INPUTS.iter().filter(|(c, _)| c.starts_with("decide/"));
        cases
            .flat_map(|(case, _)| group.counts(arm, case, metric))
            .collect()
    };
    let all: Vec<i64> = arms.iter().flat_map(|a| above(a)).collect();
    let Some(most) = all.iter().map(|n| n.abs()).max() else {
        return;
    };
    let cells: Vec<String> = arms
        .iter()
        .map(|a| {
            let above = range(&above(a), signed).replace('–', " to ");
            format!("{} {above}", in_words("rust", a, &arms[0]))
        })
        .collect();
    let verdict = match most {
        n if n <= NEAR => format!("within {NEAR} of C"),
        n => format!("up to {n} from C"),
    };
    out.claim(
        &format!("one decision, instructions above C{}", suffix(group)),
        "C",
        cells.join("; "),
        &verdict,
    );
    if group.plan == "cost" {
        out.mail.push(Block::Text(format!(
            "One decision on deactivation, instructions above those of C: {}.",
            cells.join("; ")
        )));
    }
}

fn signed(value: i64) -> String {
    match value {
        1.. => format!("+{}", thousands(value)),
        _ => thousands(value),
    }
}

const SPLITS: [(&str, &str); 3] = [
    ("cost-base", "without the series"),
    ("cost-c", "c"),
    ("cost", "rust"),
];

/// Within reclaim, where interrupts cannot be kept out: splits that had one are left out instead.
fn split(out: &mut Section, group: &Group) {
    let counts = |arm: &str, metric: &str| group.counts(arm, "thp", metric);
    let Some(base) = least(group, "cost-base", "thp", "median_instructions") else {
        return;
    };
    let mut table = Table::new(&[
        format!("split of a THP in PAGEOUT ({})", group.plan).as_str(),
        "splits a boot",
        "interrupted",
        "instructions, least",
        "median",
        "more than without",
        "change",
    ]);
    let mut cells = Vec::new();
    let mut most: f64 = 0.0;
    for (arm, label) in SPLITS {
        let Some(median) = least(group, arm, "thp", "median_instructions") else {
            continue;
        };
        let more = median - base;
        let share = more as f64 / base as f64;
        most = most.max(share);
        let share = change(share);
        table.row(vec![
            label.into(),
            range(&counts(arm, "splits"), thousands),
            range(&counts(arm, "disturbed_splits"), thousands),
            range(&counts(arm, "least_instructions"), thousands),
            range(&counts(arm, "median_instructions"), thousands),
            signed(more),
            share.clone(),
        ]);
        if arm != "cost-base" {
            cells.push(format!("{label} {} ({share})", signed(more)));
        }
    }
    out.table(table);
    out.text(
        "From just before to just after the call in shrink_folio_list(), the split itself and its order; splits that an \
         interrupt or another task was part of are not used, and how many those are differs from boot to boot.",
    );
    out.claim(
        &format!("split of a THP in PAGEOUT, instructions{}", suffix(group)),
        &format!("without the series: {}", thousands(base)),
        cells.join(", "),
        &format!("at most {}", change(most)),
    );
}
