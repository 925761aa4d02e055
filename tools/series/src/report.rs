// SPDX-License-Identifier: GPL-2.0

//! What the user sees of a KUnit run and of `make test`.

use crate::gate::{Expected, Run};
use crate::step::{elapsed_text, say};
use std::path::Path;
use std::time::Duration;

/// The suites of a run, one a line, with what was expected of them.
pub fn table(run: &Run, expected: &[Expected]) -> String {
    let wide = run
        .suites
        .iter()
        .map(|s| s.name.len())
        .max()
        .unwrap_or(0)
        .max(5);
    let mut out = format!(
        "{:wide$}  {:>6} {:>6} {:>6} {:>7} {:>7}\n",
        "suite", "cases", "passed", "failed", "skipped", "minimum"
    );
    for suite in &run.suites {
        let c = suite.counts;
        let minimum = expected
            .iter()
            .find(|e| e.suite == suite.name)
            .map_or("-".to_string(), |e| e.cases.to_string());
        out += &format!(
            "{:wide$}  {:>6} {:>6} {:>6} {:>7} {minimum:>7}\n",
            suite.name,
            c.tests,
            c.passed,
            c.failed + c.crashed,
            c.skipped
        );
    }
    out
}

/// The running count behind the last line of `make test`.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    broken: Vec<String>,
}

impl Tally {
    /// KUnit cases; a skipped case is neither passed nor failed.
    pub fn cases(&mut self, run: &Run) {
        self.passed += run.counts.passed;
        self.failed += run.counts.failed + run.counts.crashed;
    }

    pub fn check(&mut self, name: &str, ok: bool, took: Duration, log: Option<&Path>) {
        let word = if ok { "PASS" } else { "FAIL" };
        let log = log.map_or(String::new(), |l| format!("  log: {}", l.display()));
        say(format!("{word}  {name}  {}{log}", elapsed_text(took)));
        if ok {
            self.passed += 1;
        } else {
            self.failed += 1;
            self.broken.push(name.to_string());
        }
    }

    pub fn ok(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The last lines; the very last one is read by machines.
    pub fn finish(&self) -> String {
        let mut out = String::new();
        if !self.broken.is_empty() {
            out += &format!("failed: {}\n", self.broken.join(", "));
        }
        out + &format!("{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Counts, Suite};

    fn run() -> Run {
        let counts = Counts {
            tests: 6,
            passed: 3,
            failed: 1,
            crashed: 1,
            skipped: 1,
            errors: 0,
        };
        Run {
            counts,
            suites: vec![Suite {
                name: "vmscan".into(),
                counts,
            }],
            bad: vec![],
        }
    }

    #[test]
    fn closing_line_counts_cases_and_checks_but_not_skips() {
        let mut t = Tally::default();
        t.cases(&run());
        t.check("fmt", true, Duration::from_millis(1250), None);
        t.check(
            "clippy",
            false,
            Duration::from_secs(61),
            Some(Path::new("build/log/clippy.log")),
        );
        assert_eq!(t.finish(), "failed: clippy\n4 passed, 3 failed");
        assert!(!t.ok());
    }

    #[test]
    fn nothing_run_is_not_a_pass() {
        assert!(!Tally::default().ok());
        assert_eq!(Tally::default().finish(), "0 passed, 0 failed");
    }

    #[test]
    fn table_shows_the_minimum() {
        let want = [Expected {
            suite: "vmscan".into(),
            cases: 5,
            skips: 0,
        }];
        let text = table(&run(), &want);
        assert_eq!(text.lines().count(), 2);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["vmscan", "6", "3", "2", "1", "5"]);
    }
}
