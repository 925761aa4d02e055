// SPDX-License-Identifier: GPL-2.0
//! Large folios of other sizes than 2 MiB, which swap files do not take whole either.

use super::*;

pub fn write(out: &mut Section, groups: &[Group]) {
    for group in groups {
        let mut cases: Vec<(i64, String)> = group
            .cases()
            .into_iter()
            .filter_map(|case| Some((kib(&case)?, case)))
            .collect();
        cases.sort();
        let swap = group.option("--swap").unwrap_or("file");
        if cases.is_empty() || timed(group) || swap != "file" {
            continue;
        }
        sizes(out, group, &cases);
    }
}

/// Of `64k/1`.
fn kib(case: &str) -> Option<i64> {
    case.split_once("k/")?.0.parse().ok()
}

fn sizes(out: &mut Section, group: &Group, cases: &[(i64, String)]) {
    let arms = group.arms();
    let mut head = vec!["DMA mappings per 8 MiB, folios of".to_string()];
    head.extend(arms.iter().cloned());
    head.push("folios split".into());
    head.push("BIOs".into());
    let mut table = Table::new(&head);
    for (kib, case) in cases {
        let mut row = vec![format!("{} kB", thousands(*kib))];
        row.extend(
            arms.iter()
                .map(|a| range(&mappings(group, a, case), thousands)),
        );
        row.push(by_arm(group, case, "splits", thousands));
        row.push(by_arm(group, case, "bios", thousands));
        table.row(row);
        if *kib == 64 {
            let cells: Vec<String> = arms
                .iter()
                .map(|a| format!("{a} {}", range(&mappings(group, a, case), thousands)))
                .collect();
            out.claim(
                "DMA mappings per 8 MiB, folios of 64 kB",
                "not in the RFC",
                cells.join(", "),
                &fewer(group, |arm| mappings(group, arm, case)),
            );
        }
    }
    out.text(format!(
        "The same with large folios of other sizes (mTHP), {}: a swap file takes none of them whole.",
        super::matrix::setting(group)
    ));
    out.table(table);
    out.follow_up.push(Block::Table(mail(group, cases)));
    plot(out, group, cases);
}

/// As much as fits a line of mail.
fn mail(group: &Group, cases: &[(i64, String)]) -> Table {
    let mut head = vec!["DMA mappings per 8 MiB, folios of".to_string()];
    head.extend(group.arms());
    let mut table = Table::new(&head);
    for (kib, case) in cases {
        let mut row = vec![format!("{} kB", thousands(*kib))];
        let links = |a: &String| range(&mappings(group, a, case), thousands);
        row.extend(group.arms().iter().map(links));
        table.row(row);
    }
    table
}

fn plot(out: &mut Section, group: &Group, cases: &[(i64, String)]) {
    let lines = group
        .arms()
        .into_iter()
        .map(|arm| Line {
            points: cases
                .iter()
                .filter_map(|(kib, case)| {
                    let counts = mappings(group, &arm, case);
                    Some(((*kib as f64).log2(), *counts.iter().max()? as f64))
                })
                .collect(),
            label: arm,
            stroke: Stroke::Solid,
        })
        .collect();
    out.plot(Plot {
        name: format!("{}-links", group.plan),
        caption: "DMA mappings per 8 MiB by the size of the folios that are split: the kernel without the series maps each \
                  page by itself, whatever the size."
            .into(),
        columns: 1,
        panels: vec![Panel {
            title: "DMA mappings per 8 MiB".into(),
            x: "size of a folio in kB, as a power of two".into(),
            y: "mappings".into(),
            lines,
            top: None,
        }],
    });
}

/// What is linked into an IOVA range, and what is mapped by itself because it is one segment.
fn mappings(group: &Group, arm: &str, case: &str) -> Vec<i64> {
    super::matrix::sum(group, arm, case, super::matrix::MAPPINGS.1)
}

/// Which arms need fewer than the first.
pub fn fewer(group: &Group, counts: impl Fn(&str) -> Vec<i64>) -> String {
    let first = group.first_arm();
    let Some(least) = counts(&first).into_iter().min() else {
        return "not measured".into();
    };
    let fewer: Vec<String> = group
        .arms()
        .into_iter()
        .filter(|arm| *arm != first)
        .filter(|arm| counts(arm).into_iter().max().is_some_and(|m| m < least))
        .collect();
    match fewer.is_empty() {
        true => "as many".into(),
        false => format!("fewer: {}", fewer.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_cases() {
        assert_eq!(kib("64k/1"), Some(64));
        assert_eq!(kib("1024k-partial/1"), None);
        assert_eq!(kib("thp/1"), None);
    }
}
