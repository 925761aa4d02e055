// SPDX-License-Identifier: GPL-2.0
//! 2024's swap allocator by cluster order: how many 64 kB folios must be split because swap has no place for them.

use super::*;
use crate::model::{self, Iteration, Kind, Setup};
use crate::plot::{Line, Panel, Stroke};
use crate::stats::median;

/// What the thread ran on had CPU 3, so four at least.
const MODEL_CPUS: usize = 4;
const MODEL_SEED: u32 = 1;
const ITERATIONS: u32 = 100;
/// The iterations of the table.
const SHOWN: [usize; 10] = [1, 2, 3, 4, 5, 6, 13, 30, 60, 100];

/// One of the thread's tables, in percent; A and B end before the 15th iteration.
struct Thread {
    name: &'static str,
    about: &'static str,
    shown: [Option<f64>; SHOWN.len()],
    /// The median of iterations 51 to 100.
    late: Option<f64>,
}

const THREAD: [Thread; 4] = [
    Thread {
        name: "A",
        about: "100%",
        shown: [
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(18.18),
            Some(97.25),
            Some(100.00),
            Some(100.00),
            None,
            None,
            None,
        ],
        late: None,
    },
    Thread {
        name: "B",
        about: "100%",
        shown: [
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(91.15),
            Some(88.55),
            Some(99.08),
            Some(100.00),
            None,
            None,
            None,
        ],
        late: None,
    },
    Thread {
        name: "C",
        about: "0–14.72%",
        shown: [
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.43),
            Some(5.88),
            Some(10.91),
            Some(9.29),
        ],
        late: Some(5.72),
    },
    Thread {
        name: "D",
        about: "0–29.15%, rising",
        shown: [
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(0.00),
            Some(14.60),
            Some(21.74),
            Some(20.00),
            Some(19.64),
        ],
        late: Some(22.00),
    },
];

pub fn section(groups: &[Group]) -> Result<Section> {
    let mut out = Section::new("mthp-swpout", "mthp-swpout: swap slots for 64 kB folios");
    out.text(
        "100 times, 16 MiB of 60 MiB in folios of 64 kB are dropped and refilled, and all is paged out to 64 MiB of zram; \
         `large+small` does the same beside 1 MiB of single pages. A folio for which swap has no 16 slots in a row falls \
         back to being split. The thread has four tables: A and B before the series of 2024, without and with single \
         pages, both at 100% from about the sixth iteration on; C and D with it, at 0 to 15% and rising to about 25%. \
         The guest draws the same random numbers as the thread's program.",
    );
    out.text(format!(
        "The kernel before the series is not built here. Its columns, and for comparison those of the series, are a **model** \
         (tools/report/src/model): where slots are taken from, {} clusters of {} slots, {MODEL_CPUS} CPUs, and nothing \
         else. It shows which rule makes the difference, and no exact share: the kernel of 2024 also kept slots in caches of \
         each CPU, which the model has not. The thread asks why C is not 0: in the model it is 0 on one CPU, and not on \
         {MODEL_CPUS}, each of which keeps the rest of a cluster to itself. What is measured is today's kernel.",
        model::SLOTS / model::CLUSTER,
        model::CLUSTER
    ));
    let mut panels = Vec::new();
    for case in cases(groups) {
        let columns = columns(groups, &case);
        for group in groups {
            if group.cases().contains(&case) {
                out.note_gaps(group, &case, &["swpout", "swpout_fallback"]);
            }
        }
        out.text(format!("### {case}"));
        table(&mut out, &case, &columns);
        claims(&mut out, &case, &columns);
        panels.push(panel(&case, columns));
    }
    out.plot(Plot {
        name: "mthp-swpout-fallback".into(),
        caption: "Folios of 64 kB that swap had no place for, of those paged out in an iteration. Dashed lines are the \
                  model, full lines are measured."
            .into(),
        columns: 2,
        panels,
    });
    Ok(out)
}

/// The thread's first.
fn cases(groups: &[Group]) -> Vec<String> {
    let mut cases: Vec<String> = groups.iter().flat_map(Group::cases).collect();
    cases.sort_by_key(|c| (c.starts_with("tree/"), c.clone()));
    cases.dedup();
    cases
}

fn panel(case: &str, columns: Vec<Column>) -> Panel {
    let lines = columns.into_iter().map(|c| Line {
        label: c.label,
        stroke: if c.model {
            Stroke::Dashed
        } else {
            Stroke::Solid
        },
        points: c.points,
    });
    Panel {
        title: case.into(),
        x: "iteration".into(),
        y: "folios split, %".into(),
        lines: lines.filter(|l| !l.points.is_empty()).collect(),
        top: Some(104.0),
    }
}

fn model(kind: Kind, small: bool) -> Vec<(f64, f64)> {
    let setup = Setup {
        kind,
        small,
        iterations: ITERATIONS,
        cpus: MODEL_CPUS,
        seed: MODEL_SEED,
    };
    let shares = model::run(setup).into_iter().map(Iteration::percent);
    (1..).map(f64::from).zip(shares).collect()
}

/// In percent, iterations from 1 as in the thread.
fn shares(group: &Group, arm: &str, case: &str) -> Vec<(f64, f64)> {
    let whole = group.series(arm, case, "swpout");
    let split = group.series(arm, case, "swpout_fallback");
    whole
        .into_iter()
        .zip(split)
        .map(|((i, whole), (_, split))| (i + 1.0, 100.0 * split / (whole + split).max(1.0)))
        .collect()
}

struct Column {
    label: String,
    points: Vec<(f64, f64)>,
    /// The thread's table that it is to be held against.
    theirs: &'static str,
    model: bool,
}

/// The models, where the thread has that case, and what was measured.
fn columns(groups: &[Group], case: &str) -> Vec<Column> {
    let (old, new) = match case {
        "large" => ("A", "C"),
        "large+small" => ("B", "D"),
        _ => ("", ""),
    };
    let mut out = Vec::new();
    for (kind, name, theirs) in [
        (Kind::Old, "before the series", old),
        (Kind::New, "series of 2024", new),
    ] {
        if !theirs.is_empty() {
            out.push(Column {
                label: format!("{name} (model)"),
                points: model(kind, case == "large+small"),
                theirs,
                model: true,
            });
        }
    }
    let here: Vec<&Group> = groups
        .iter()
        .filter(|g| g.cases().iter().any(|c| c == case))
        .collect();
    for group in &here {
        for arm in group.arms() {
            out.push(Column {
                points: shares(group, &arm, case),
                label: match here.len() {
                    1 => arm,
                    _ => format!("{arm} ({})", group.plan),
                },
                theirs: new,
                model: false,
            });
        }
    }
    out
}

fn percent(value: Option<f64>) -> String {
    value.map_or("–".into(), |v| format!("{v:.1}"))
}

fn thread(name: &str) -> Option<&'static Thread> {
    THREAD.iter().find(|t| t.name == name)
}

fn table(out: &mut Section, case: &str, columns: &[Column]) {
    let mut head = vec![format!("{case}: % split in iteration")];
    for column in columns {
        if column.model {
            head.push(format!("thread {}", column.theirs));
        }
        let kind = if column.model { "" } else { " (measured)" };
        head.push(format!("{}{kind}", column.label));
    }
    let mut table = Table::new(&head);
    let mut add = |name: String,
                   theirs: &dyn Fn(&Column) -> Option<f64>,
                   ours: &dyn Fn(&Column) -> Option<f64>| {
        let mut cells = vec![name];
        for column in columns {
            if column.model {
                cells.push(percent(theirs(column)));
            }
            cells.push(percent(ours(column)));
        }
        table.row(cells);
    };
    for (row, shown) in SHOWN.into_iter().enumerate() {
        add(shown.to_string(), &|c| thread(c.theirs)?.shown[row], &|c| {
            Some(c.points.get(shown - 1)?.1)
        });
    }
    add(
        "median of 51–100".into(),
        &|c| thread(c.theirs)?.late,
        &|c| late(&c.points),
    );
    out.table(table);
}

/// The median of the second half.
fn late(points: &[(f64, f64)]) -> Option<f64> {
    let late: Vec<f64> = points.iter().filter(|p| p.0 > 50.0).map(|p| p.1).collect();
    median(&late)
}

fn claims(out: &mut Section, case: &str, columns: &[Column]) {
    let (models, seen): (Vec<&Column>, Vec<&Column>) = columns.iter().partition(|c| c.model);
    let about = |name: &str| thread(name).map_or("–", |t| t.about);
    let words: Vec<String> = seen
        .iter()
        .filter_map(|c| Some(format!("{} {:.1}%", c.label, late(&c.points)?)))
        .collect();
    let worst = seen
        .iter()
        .filter_map(|c| late(&c.points))
        .fold(0.0, f64::max);
    let theirs = seen.first().map_or("–", |c| about(c.theirs));
    let limit = if case == "large" { 15.0 } else { 30.0 };
    if let Some(old) = models.first() {
        claim_model(out, case, old);
    }
    if !words.is_empty() {
        out.claim(
            &format!("64 kB folios split, {case}, today"),
            theirs,
            format!("{}, median of 51–100", words.join(", ")),
            if worst < limit {
                "stays low"
            } else {
                "differs"
            },
        );
    }
}

fn claim_model(out: &mut Section, case: &str, old: &Column) {
    let collapsed = old.points.iter().find(|p| p.1 >= 99.9).map(|p| p.0);
    let ours = collapsed.map_or("does not reach 100%".into(), |i| {
        let late = percent(late(&old.points));
        format!("100% in iteration {i}, median of 51–100 {late}% (model)")
    });
    let verdict = match collapsed {
        Some(i) if i <= 13.0 => "same (model)",
        _ => "differs (model)",
    };
    let what = format!("64 kB folios split, {case}, before the series of 2024");
    out.claim(
        &what,
        thread(old.theirs).map_or("–", |t| t.about),
        ours,
        verdict,
    );
}
