// SPDX-License-Identifier: GPL-2.0
//! What runs must show: the rows of `lab/expect.tsv`, exact counts as ranges.

use crate::run::Run;
use anyhow::{Context, Result, bail};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub plan: String,
    /// `*` is every case.
    pub case: String,
    pub arms: Vec<String>,
    pub metric: String,
    pub min: i64,
    pub max: i64,
    /// What it means when it does not hold.
    pub means: String,
}

impl Expectation {
    /// The rows of the text of `lab/expect.tsv`.
    pub fn parse(tsv: &str) -> Result<Vec<Expectation>> {
        let rows = tsv.lines().enumerate();
        rows.filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
            .map(|(i, l)| row(l).with_context(|| format!("lab/expect.tsv:{}: `{l}`", i + 1)))
            .collect()
    }
}

fn row(line: &str) -> Result<Expectation> {
    let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [plan, case, arms, metric, min, max, means] = cells[..] else {
        bail!("want 7 cells: plan, case, arms, metric, minimum, maximum, what it means");
    };
    let (min, max) = bounds(min, max)?;
    Ok(Expectation {
        plan: plan.into(),
        case: case.into(),
        arms: arms.split(',').map(|a| a.trim().into()).collect(),
        metric: metric.into(),
        min,
        max,
        means: means.into(),
    })
}

/// Two cells; `-` is no bound.
pub(crate) fn bounds(min: &str, max: &str) -> Result<(i64, i64)> {
    let bound = |text: &str, none| match text {
        "-" => Ok(none),
        n => n
            .parse()
            .with_context(|| format!("`{n}` is neither a number nor `-`")),
    };
    let (min, max) = (bound(min, i64::MIN)?, bound(max, i64::MAX)?);
    if min > max || (min, max) == (i64::MIN, i64::MAX) {
        bail!("no value can fail it, or none can hold: {min} to {max}");
    }
    Ok((min, max))
}

/// How many values held, and a sentence for each row and arm of which some did not. A row whose plan ran but that met
/// no value is one too: a metric that is no longer reported must not read as a pass.
pub fn check(rows: &[Expectation], runs: &[Run]) -> (usize, Vec<String>) {
    let (mut held, mut wrong) = (0, Vec::new());
    for row in rows {
        for arm in &row.arms {
            let of_arm: Vec<&Run> = runs
                .iter()
                .filter(|r| r.meta.plan == row.plan && r.meta.arm == *arm)
                .collect();
            if of_arm.is_empty() {
                continue;
            }
            // Each run by itself: another one's values are not this one's.
            let silent = of_arm.iter().find(|r| values(row, &[**r]).is_empty());
            let values = values(row, &of_arm);
            let bad: Vec<_> = values
                .iter()
                .filter(|(_, v)| !(row.min..=row.max).contains(v))
                .collect();
            held += values.len() - bad.len();
            if let Some(run) = silent {
                wrong.push(format!(
                    "{} {}: arm {arm} reported no {}, so nothing shows that {} ({})",
                    row.plan, row.case, row.metric, row.means, run.name
                ));
            }
            if let Some((run, value)) = bad.first() {
                wrong.push(format!(
                    "{} {}: {} of arm {arm} is {value}, expected {}: {} ({} of {} values, the first in {run})",
                    row.plan,
                    row.case,
                    row.metric,
                    range(row.min, row.max),
                    row.means,
                    bad.len(),
                    values.len(),
                ));
            }
        }
    }
    (held, wrong)
}

/// What the samples of a row's case say, each with its run.
fn values<'a>(row: &Expectation, runs: &[&'a Run]) -> Vec<(&'a str, i64)> {
    let mut values = Vec::new();
    for run in runs {
        let samples = run.samples.iter();
        for line in samples.filter(|l| row.case == "*" || l.case == row.case) {
            if let Some(&value) = line.values.get(&row.metric) {
                values.push((run.name.as_str(), value));
            }
        }
    }
    values
}

pub(crate) fn range(min: i64, max: i64) -> String {
    match (min, max) {
        (a, b) if a == b => a.to_string(),
        (i64::MIN, b) => format!("at most {b}"),
        (a, i64::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::sample;
    use crate::line::{Clock, Iommu, Lru};
    use crate::run::Meta;

    const TSV: &str =
        "# c\n\npageout\tthp/1\tc,rust\tiova_links\t64\t64\tpages are written in ascending order\n";

    fn run(arm: &str, values: &[(&str, i64)]) -> Run {
        Run {
            name: format!("pageout.0.{arm}"),
            meta: Meta {
                plan: "pageout".into(),
                workload: "pageout".into(),
                args: String::new(),
                arm: arm.into(),
                lru: Lru::Classic,
                clock: Clock::Counts,
                accel: "tcg".into(),
                cpus: 2,
                memory_mib: 2048,
                device: "nvme".into(),
                iommu: Iommu::Translate,
                round: 0,
                boot: 0,
                source: "0".into(),
            },
            samples: vec![sample(arm, "thp/1", values)],
        }
    }

    #[test]
    fn what_does_not_hold_is_said_in_words() {
        let rows = Expectation::parse(TSV).unwrap();
        let good = [
            run("c", &[("iova_links", 64)]),
            run("rust", &[("iova_links", 64)]),
        ];
        assert_eq!(check(&rows, &good), (2, vec![]));
        let (held, wrong) = check(
            &rows,
            &[
                run("c", &[("iova_links", 64)]),
                run("rust", &[("iova_links", 2047)]),
            ],
        );
        assert_eq!(held, 1);
        assert_eq!(
            wrong,
            [
                "pageout thp/1: iova_links of arm rust is 2047, expected 64: pages are written in ascending order (1 of 1 values, the first in pageout.0.rust)"
            ]
        );
    }

    #[test]
    fn a_metric_that_vanished_is_no_pass() {
        let rows = Expectation::parse(TSV).unwrap();
        let (held, wrong) = check(&rows, &[run("c", &[("bios", 65)])]);
        assert_eq!(held, 0);
        assert!(
            wrong[0].contains("arm c reported no iova_links"),
            "{}",
            wrong[0]
        );
        let two = [run("c", &[("iova_links", 64)]), run("c", &[("bios", 65)])];
        assert_eq!(check(&rows, &two).1.len(), 1);
        // An arm or a plan that did not run is not this check's affair.
        assert_eq!(check(&rows, &[run("base", &[])]), (0, vec![]));
    }

    #[test]
    fn bad_rows_are_named() {
        for bad in [
            "a\tb",
            &TSV.replace("\t64\t64\t", "\t64\tmany\t"),
            &TSV.replace("\t64\t64\t", "\t-\t-\t"),
            &TSV.replace("\t64\t64\t", "\t64\t63\t"),
        ] {
            let e = format!("{:#}", Expectation::parse(bad).unwrap_err());
            assert!(e.contains("lab/expect.tsv:"), "{e}");
        }
    }
}
