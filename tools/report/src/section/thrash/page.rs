// SPDX-License-Identifier: GPL-2.0
//! The same table in reStructuredText, for the kernel's documentation: one figure a cell, as a page has 80 columns.

use super::reach::{Differs, Line, OTHERS, Outcome};
use crate::stats::median;
use crate::text::thousands;

/// What the rows of lab/plan.tsv are, for readers who do not have it.
const ROWS: [(&str, &str); 7] = [
    (
        "2019",
        "a file read ten times beside anonymous memory, memory.stat read too",
    ),
    ("2019-asleep", "the same, memory.stat left alone"),
    (
        "mixed",
        "a mapped file read ten times, another streams by, memory.stat read",
    ),
    (
        "readers",
        "four readers of a file larger than memory, no cgroup",
    ),
    ("seed", "the program of 2019 at its own sizes, no cgroup"),
    ("spill", "temporary files written, read back once, removed"),
    (
        "swappiness-0",
        "as 2019, anonymous memory not to be swapped",
    ),
];

/// Nothing without a line.
pub fn rst(lines: &[Line]) -> Option<String> {
    if lines.is_empty() {
        return None;
    }
    let mut rows = vec![head()];
    rows.extend(lines.iter().map(row));
    let mut out = String::from(
        "Major faults, or where the file is read with read(2) pages read from files, in\n\
         runs under QEMU. *Decided* counts the decisions that refaults made and the sizes\n\
         alone would not have made. In the column *2019* a refault of a file page makes a\n\
         list low only if pages are active; *blind* is deaf to refaults in the choice of\n\
         lists, as before 2019, and *removed* also in deactivation. ``!`` marks what is\n\
         beyond 1.5 times today's, ``=`` runs in which no decision differed from today's\n\
         rule: what differs there is when statistics were flushed.\n\n",
    );
    out += &simple(&rows);
    out += "\n";
    for line in lines {
        let words = ROWS.iter().find(|(name, _)| *name == line.name());
        if let Some((name, words)) = words {
            out += &format!("* {name}: {words}\n");
        }
    }
    if lines.iter().any(|l| !l.asked()) {
        out += "\nWith the multi-generational LRU nobody asks whether a list is low.\n";
    }
    Some(out)
}

fn head() -> Vec<String> {
    let mut head: Vec<String> = ["Workload", "Count", "Decided", "Today"]
        .map(String::from)
        .into();
    head.extend(OTHERS.map(|(_, name)| name[..1].to_uppercase() + &name[1..]));
    head
}

fn row(line: &Line) -> Vec<String> {
    let unit = match line.measure {
        "read_pages" => "pages",
        _ => "faults",
    };
    let decided = match line.asked() {
        true => middle(&line.today.decided),
        false => "not asked".into(),
    };
    let value = |o: &Outcome| middle(o.measured(line.measure));
    let mut row = vec![
        line.name().to_string(),
        unit.into(),
        decided,
        value(&line.today),
    ];
    // A cell of a dash alone would start a list.
    row.extend(line.others.iter().map(|o| match o {
        None => "n/a".into(),
        Some(o) => match line.differs(o) {
            Differs::InResult(_) => value(o) + "!",
            Differs::Never => value(o) + "=",
            _ => value(o),
        },
    }));
    row
}

fn middle(values: &[i64]) -> String {
    let values: Vec<f64> = values.iter().map(|v| *v as f64).collect();
    median(&values).map_or("n/a".into(), |m| thousands(m.round() as i64))
}

/// A simple table, figures to the right.
fn simple(rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|c| rows.iter().map(|r| r[c].len()).max().unwrap_or(0))
        .collect();
    let rule: Vec<String> = widths.iter().map(|w| "=".repeat(*w)).collect();
    let rule = rule.join("  ") + "\n";
    let mut out = rule.clone();
    for (i, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .zip(0..)
            .map(|((cell, width), c)| match c {
                0 | 1 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        out += cells.join("  ").trim_end();
        out += "\n";
        if i == 0 {
            out += &rule;
        }
    }
    out + &rule
}

#[cfg(test)]
mod tests {
    use super::super::reach::tests::made_up;
    use super::*;
    use results::Lru;

    #[test]
    fn a_table_that_rst_takes() {
        let rows = [["Workload", "Count", "Today"], ["mixed", "faults", "1"]]
            .map(|r| r.map(String::from).into());
        assert_eq!(
            simple(&rows),
            "========  ======  =====\nWorkload  Count   Today\n========  ======  =====\nmixed     faults      1\n========  ======  =====\n"
        );
    }

    #[test]
    fn every_description_fits_the_page() {
        for (name, words) in ROWS {
            assert!(format!("* {name}: {words}").len() <= 80, "{name}");
        }
    }

    #[test]
    fn what_differs_is_marked_and_the_page_keeps_its_width() {
        let others = [Some((104, 0)), Some((330, 7)), Some((120, 2))];
        let lines = [
            made_up("thrash-mixed", Lru::Classic, others),
            made_up("thrash-mixed-mglru", Lru::Mglru, [None, None, None]),
        ];
        let rst = rst(&lines).unwrap();
        for want in [
            "mixed        faults         40    105  104=   330!      120\n",
            "mixed-mglru  faults  not asked    105   n/a    n/a      n/a\n",
            "\n* mixed: a mapped file",
            "nobody asks",
        ] {
            assert!(rst.contains(want), "{want} is not in\n{rst}");
        }
        assert!(
            rst.is_ascii() && rst.lines().all(|l| l.len() <= 80),
            "{rst}"
        );
        assert!(super::rst(&[]).is_none());
    }
}
