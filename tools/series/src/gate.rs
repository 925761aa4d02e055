// SPDX-License-Identifier: GPL-2.0

//! The verdict on a KUnit run: the cases kunit.py counted, the suites that must
//! be among them, and a boot log without a single report from the kernel.
//!
//! kunit.py alone is not enough: a suite that was never built is no failure to
//! it, and neither is a WARNING beside passing tests.

use crate::opts::Series;
use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One level of kunit.py's `--json`: the run, a suite, or a parameterised case.
#[derive(Deserialize)]
struct Group {
    name: String,
    #[serde(default)]
    sub_groups: Vec<Group>,
    #[serde(default)]
    test_cases: Vec<Case>,
    misc: Counts,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    status: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub struct Counts {
    pub tests: usize,
    pub passed: usize,
    pub failed: usize,
    pub crashed: usize,
    pub skipped: usize,
    /// What kunit.py could not make sense of, for example fewer results than planned.
    pub errors: usize,
}

#[derive(Debug)]
pub struct Suite {
    pub name: String,
    pub counts: Counts,
}

/// What kunit.py made of one boot.
#[derive(Debug, Default)]
pub struct Run {
    pub counts: Counts,
    pub suites: Vec<Suite>,
    /// `suite.case` of everything that neither passed nor was skipped.
    pub bad: Vec<String>,
}

/// One line of `kunit/suites.tsv`.
#[derive(Debug, PartialEq)]
pub struct Expected {
    pub suite: String,
    pub cases: usize,
    pub skips: usize,
}

/// A report of the kernel's own in the boot log.
#[derive(Debug, PartialEq)]
pub struct Report {
    pub line: usize,
    pub text: String,
}

pub fn parse(json: &str) -> Result<Run> {
    let root: Group = serde_json::from_str(json).context("not the JSON kunit.py writes")?;
    let mut run = Run {
        counts: root.misc,
        ..Run::default()
    };
    for group in &root.sub_groups {
        collect_bad(group, &group.name, &mut run.bad);
        run.suites.push(Suite {
            name: group.name.clone(),
            counts: group.misc,
        });
    }
    // A suite without a single result is a bare case to kunit.py; one without
    // a name is what the kernel died in.
    for case in &root.test_cases {
        if !case.name.is_empty() {
            run.suites.push(Suite {
                name: case.name.clone(),
                counts: Counts::default(),
            });
        }
        note_bad(case, "", &mut run.bad);
    }
    run.bad.dedup();
    Ok(run)
}

fn collect_bad(group: &Group, path: &str, bad: &mut Vec<String>) {
    for case in &group.test_cases {
        note_bad(case, &format!("{path}."), bad);
    }
    for sub in &group.sub_groups {
        collect_bad(sub, &format!("{path}.{}", sub.name), bad);
    }
}

fn note_bad(case: &Case, prefix: &str, bad: &mut Vec<String>) {
    if case.status == "PASS" || case.status == "SKIP" {
        return;
    }
    // The kernel died before it could name the case.
    let name = match case.name.as_str() {
        "" => "(never reported)",
        name => name,
    };
    let what = match case.status.as_str() {
        "ERROR" => "crashed",
        _ => "failed",
    };
    bad.push(format!("{prefix}{name} {what}"));
}

/// What `tsv` (the text of kunit/suites.tsv) demands of a run. With the follow-up, that is all that is demanded without
/// it, and the lines for `<config>-all`, which may also change what is demanded of a suite.
pub fn expected(tsv: &str, config: &str, series: Series) -> Result<Vec<Expected>> {
    let mut out = lines_for(tsv, config)?;
    if series == Series::All {
        let more = lines_for(tsv, &format!("{config}-all"))?;
        out.retain(|e| !more.iter().any(|m| m.suite == e.suite));
        out.extend(more);
    }
    if out.is_empty() {
        bail!(
            "kunit/suites.tsv names no suite for configuration `{config}`, so no run of it can pass"
        );
    }
    Ok(out)
}

fn lines_for(tsv: &str, config: &str) -> Result<Vec<Expected>> {
    let mut out = Vec::new();
    for (i, line) in tsv.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || {
            format!(
                "kunit/suites.tsv:{}: want `suite<TAB>configurations<TAB>minimum cases<TAB>allowed skips`, got `{line}`",
                i + 1
            )
        };
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [suite, configs, cases, skips] = cells[..] else {
            bail!(bad());
        };
        let wanted = Expected {
            suite: suite.to_string(),
            cases: cases.parse().with_context(bad)?,
            skips: skips.parse().with_context(bad)?,
        };
        if configs.split(',').any(|c| c.trim() == config) {
            out.push(wanted);
        }
    }
    Ok(out)
}

/// Text that only a kernel report contains. Case matters: `WARNING:` is a
/// report, the boot parameter `warning` is not.
const REPORTS: &[&str] = &[
    "WARNING: ",
    "BUG: ",
    "kernel BUG at",
    "Oops: ",
    "Oops[#",
    "general protection fault",
    "double fault:",
    "Unable to handle kernel",
    "Kernel panic",
    "panicked at",
    "list_add corruption",
    "list_del corruption",
    "list_add double add",
    "Bad page",
    "page dumped because",
    "sleeping function called",
    "suspicious RCU usage",
    "DEBUG_LOCKS_WARN_ON",
    "*** DEADLOCK ***",
    "refcount_t: ",
    "UBSAN: ",
    "KASAN: ",
    "KFENCE: ",
    "KCSAN: ",
    "detected stall",
    "detected expedited stall",
    "self-detected stall",
    "INFO: trying to register non-static key",
    "turning off the locking correctness validator",
    "lockdep is turned off",
    "page allocation failure",
    "soft lockup",
    "hard LOCKUP",
    "blocked for more than",
    "Out of memory: Killed",
    "cut here ]",
];

/// Every line of a boot log that belongs to a report, at most one per line.
pub fn scan(log: &str) -> Vec<Report> {
    let hit = |line: &&str| REPORTS.iter().any(|r| line.contains(r));
    log.lines()
        .enumerate()
        .filter(|(_, line)| hit(line))
        .map(|(i, line)| Report {
            line: i + 1,
            text: line.trim().to_string(),
        })
        .collect()
}

/// Everything that is wrong with a run; empty means it passed.
pub fn judge(run: &Run, expected: &[Expected], log_name: &str, log: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if run.counts.passed == 0 {
        wrong.push("no case passed".to_string());
    }
    wrong.extend(run.bad.iter().cloned());
    if run.counts.failed + run.counts.crashed > 0 && run.bad.is_empty() {
        wrong.push(format!(
            "{} cases failed and {} crashed",
            run.counts.failed, run.counts.crashed
        ));
    }
    if run.counts.errors > 0 {
        wrong.push(format!(
            "kunit.py could not make sense of the output in {} places (missing or surplus results)",
            run.counts.errors
        ));
    }
    for want in expected {
        let Some(suite) = run.suites.iter().find(|s| s.name == want.suite) else {
            wrong.push(format!("suite {} is missing", want.suite));
            continue;
        };
        let got = suite.counts;
        if got.tests < want.cases {
            wrong.push(format!(
                "suite {} has {} cases, at least {} expected",
                want.suite, got.tests, want.cases
            ));
        }
        if got.skipped > want.skips {
            wrong.push(format!(
                "suite {} skipped {} cases, {} allowed",
                want.suite, got.skipped, want.skips
            ));
        }
    }
    let reports = scan(log);
    // The first lines say what happened, the rest is its echo.
    for report in reports.iter().take(5) {
        wrong.push(format!("{log_name}:{}: {}", report.line, report.text));
    }
    if reports.len() > 5 {
        wrong.push(format!("{log_name}: {} more such lines", reports.len() - 5));
    }
    wrong
}

/// The samples are boots of a kernel with a suite for each way to go wrong,
/// cut down to what matters.
#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! sample {
        ($name:literal) => {
            include_str!(concat!("../samples/", $name))
        };
    }

    fn want(suite: &str, cases: usize, skips: usize) -> Vec<Expected> {
        vec![Expected {
            suite: suite.into(),
            cases,
            skips,
        }]
    }

    fn verdict(json: &str, expected: &[Expected], log: &str) -> Vec<String> {
        judge(&parse(json).unwrap(), expected, "test.log", log)
    }

    #[test]
    fn a_clean_run_passes() {
        let (json, log) = (sample!("pass.json"), sample!("pass.log"));
        let run = parse(json).unwrap();
        assert_eq!(run.counts.passed, 39);
        assert_eq!(run.suites.len(), 1);
        assert_eq!(run.suites[0].counts.tests, 39);
        assert!(verdict(json, &want("list-kunit-test", 39, 0), log).is_empty());
    }

    #[test]
    fn too_few_cases() {
        let wrong = verdict(
            sample!("pass.json"),
            &want("list-kunit-test", 40, 0),
            sample!("pass.log"),
        );
        assert_eq!(
            wrong,
            ["suite list-kunit-test has 39 cases, at least 40 expected"]
        );
    }

    #[test]
    fn a_missing_suite() {
        let wrong = verdict(
            sample!("pass.json"),
            &want("vmscan", 1, 0),
            sample!("pass.log"),
        );
        assert_eq!(wrong, ["suite vmscan is missing"]);
    }

    #[test]
    fn a_failed_case() {
        let wrong = verdict(
            sample!("fail.json"),
            &want("gate_fail", 2, 0),
            sample!("fail.log"),
        );
        assert_eq!(wrong, ["gate_fail.fail failed"]);
    }

    #[test]
    fn skips_are_counted_against_the_allowance() {
        let (json, log) = (sample!("skip.json"), sample!("skip.log"));
        assert!(verdict(json, &want("gate_skip", 2, 1), log).is_empty());
        let wrong = verdict(json, &want("gate_skip", 2, 0), log);
        assert_eq!(wrong, ["suite gate_skip skipped 1 cases, 0 allowed"]);
    }

    /// kunit.py calls this run a success.
    #[test]
    fn a_warning_beside_passing_cases() {
        let wrong = verdict(
            sample!("warn.json"),
            &want("gate_warn", 2, 0),
            sample!("warn.log"),
        );
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert_eq!(wrong[0], "test.log:9: ------------[ cut here ]------------");
        assert!(
            wrong[1].starts_with("test.log:10: WARNING: lib/tests/gate-test.c:15 at warn"),
            "{}",
            wrong[1]
        );
    }

    #[test]
    fn an_oops() {
        let wrong = verdict(
            sample!("oops.json"),
            &want("gate_oops", 2, 0),
            sample!("oops.log"),
        );
        assert_eq!(wrong[0], "gate_oops.oops failed");
        assert!(
            wrong[1].contains("BUG: kernel NULL pointer dereference"),
            "{wrong:?}"
        );
    }

    #[test]
    fn a_kernel_that_dies() {
        let wrong = verdict(
            sample!("dies.json"),
            &want("gate_dies", 2, 0),
            sample!("dies.log"),
        );
        assert_eq!(wrong[0], "gate_dies.(never reported) crashed");
        assert!(
            wrong
                .iter()
                .any(|w| w.contains("Kernel panic - not syncing: gate")),
            "{wrong:?}"
        );
    }

    #[test]
    fn a_kernel_that_hangs() {
        let wrong = verdict(
            sample!("hang.json"),
            &want("gate_hang", 2, 0),
            sample!("hang.log"),
        );
        assert_eq!(wrong[0], "no case passed");
        assert!(
            wrong.contains(&"gate_hang.(never reported) crashed".to_string()),
            "{wrong:?}"
        );
    }

    #[test]
    fn no_suite_at_all() {
        let wrong = verdict(
            sample!("empty.json"),
            &want("gate_empty", 1, 0),
            sample!("empty.log"),
        );
        assert!(wrong.contains(&"no case passed".to_string()), "{wrong:?}");
        assert!(
            wrong.contains(&"suite gate_empty is missing".to_string()),
            "{wrong:?}"
        );
    }

    #[test]
    fn reports_without_any_failed_case() {
        let cases = [
            (sample!("list.log"), "list_add double add"),
            (
                sample!("deadlock.log"),
                "WARNING: possible circular locking dependency detected",
            ),
            (
                sample!("sleeps.log"),
                "BUG: sleeping function called from invalid context",
            ),
            (sample!("page.log"), "BUG: Bad page state"),
            (
                "INFO: trying to register non-static key.\n",
                "non-static key",
            ),
            (
                "turning off the locking correctness validator.\n",
                "turning off",
            ),
            (
                "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {\n",
                "expedited",
            ),
        ];
        for (log, text) in cases {
            assert!(scan(log).iter().any(|r| r.text.contains(text)), "{text}");
        }
        assert_eq!(scan(sample!("pass.log")), []);
        assert_eq!(scan(sample!("skip.log")), []);
    }

    #[test]
    fn many_reports_stay_readable() {
        let log = "WARNING: x\n".repeat(9);
        let wrong = verdict(sample!("pass.json"), &want("list-kunit-test", 1, 0), &log);
        assert_eq!(wrong.len(), 6);
        assert_eq!(wrong[5], "test.log: 4 more such lines");
    }

    #[test]
    fn suites_tsv() {
        let tsv = "# c\n\nsplit\trust,c\t40\t0\nsplit\tum\t30\t2\nratio\trust\t9\t0\n";
        assert_eq!(
            expected(tsv, "c", Series::Core).unwrap(),
            want("split", 40, 0)
        );
        assert_eq!(
            expected(tsv, "um", Series::Core).unwrap(),
            want("split", 30, 2)
        );
        assert_eq!(expected(tsv, "rust", Series::Core).unwrap().len(), 2);
        let more = format!("{tsv}swap\trust-all\t5\t0\nsplit\trust-all\t44\t0\n");
        assert_eq!(
            expected(&more, "c", Series::All).unwrap(),
            want("split", 40, 0)
        );
        assert_eq!(expected(&more, "rust", Series::Core).unwrap().len(), 2);
        let all = expected(&more, "rust", Series::All).unwrap();
        let all: Vec<_> = all.iter().map(|e| (&e.suite[..], e.cases)).collect();
        assert_eq!(all, [("ratio", 9), ("swap", 5), ("split", 44)]);
        let e = expected(tsv, "um-c", Series::Core).unwrap_err().to_string();
        assert!(e.contains("no suite for configuration `um-c`"), "{e}");
        for bad in ["split\trust\t40", "split\trust\tmany\t0"] {
            let e = format!("{:#}", expected(bad, "rust", Series::Core).unwrap_err());
            assert!(e.contains("kunit/suites.tsv:1"), "{e}");
        }
    }

    #[test]
    fn the_file_we_ship_parses() {
        let tsv = include_str!("../../../kunit/suites.tsv");
        // A row that is dropped would let its suite vanish unnoticed.
        for (config, suites) in [("rust", 6), ("um", 6), ("c", 2), ("um-c", 2)] {
            assert_eq!(
                expected(tsv, config, Series::Core).unwrap().len(),
                suites,
                "{config}"
            );
        }
    }

    #[test]
    fn not_a_result() {
        assert!(parse("").is_err());
        assert!(parse("{}").is_err());
    }
}
