// SPDX-License-Identifier: GPL-2.0
//! The kernel's own benchmark, which runs when its file is read.

use crate::lab::Lab;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;

const FILE: &str = "/sys/kernel/debug/vmscan_cost";

/// What the kernel ran to show that its counter counts instructions, and how many those are.
const KNOWN: [(&str, i64); 2] = [("nops", 1000), ("loop", 2001)];

/// Least and most of the turns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turns {
    least: i64,
    most: i64,
}

/// By case, then by implementation.
type Cases = BTreeMap<String, BTreeMap<String, Turns>>;

pub fn measure(lab: &mut Lab) -> Result<()> {
    let mut cases = parse(&super::read(FILE)?)?;
    let known = cases
        .remove("calibrate")
        .with_context(|| format!("{FILE} does not say what known instructions count as"))?;
    calibrated(&known)?;
    for (case, by_name) in &cases {
        let values = values(case, by_name)?;
        let values: Vec<(&str, i64)> = values.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        lab.sample(case, 0, &values)?;
    }
    Ok(())
}

/// Lines of `case implementation least most`.
fn parse(text: &str) -> Result<Cases> {
    let mut cases = Cases::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [case, name, least, most] = cells[..] else {
            bail!("{FILE}: `{line}` is not `case implementation least most`");
        };
        let number = |cell: &str| {
            cell.parse::<i64>()
                .with_context(|| format!("{FILE}: `{cell}` in `{line}` is no number"))
        };
        let turns = Turns {
            least: number(least)?,
            most: number(most)?,
        };
        if turns.least < 0 || turns.most < turns.least {
            bail!("{FILE}: `{line}`: less than nothing, or least above most");
        }
        cases
            .entry(case.into())
            .or_default()
            .insert(name.into(), turns);
    }
    Ok(cases)
}

/// One unit of the counter has to be one instruction, each time.
fn calibrated(known: &BTreeMap<String, Turns>) -> Result<()> {
    for (name, instructions) in KNOWN {
        let got = known
            .get(name)
            .with_context(|| format!("{FILE} did not count `{name}`"))?;
        let want = Turns {
            least: instructions,
            most: instructions,
        };
        if *got != want {
            bail!(
                "the TSC counts {} to {} for {instructions} instructions ({name}): it does not count instructions; \
                 icount needs shift=0 and one CPU",
                got.least,
                got.most
            );
        }
    }
    Ok(())
}

/// The metrics of a case.
fn values(case: &str, by_name: &BTreeMap<String, Turns>) -> Result<Vec<(String, i64)>> {
    let least = |name: &str| by_name.get(name).map(|t| t.least);
    let mut out: Vec<(String, i64)> = by_name
        .iter()
        .map(|(name, t)| (format!("{name}_instructions"), t.least))
        .collect();
    let spread = by_name.values().map(|t| t.most - t.least).max();
    out.push((
        "spread_instructions".into(),
        spread.context("no turns of a case")?,
    ));
    if let (true, Some(c), Some(rust)) = (case.starts_with("decide/"), least("c"), least("rust")) {
        out.push(("rust_above_c_instructions".into(), rust - c));
    }
    if let (Some(stub), Some(moved)) = (least("stub"), least("move")) {
        if moved <= stub {
            bail!(
                "{case}: the loop takes {moved} instructions and putting children on a list {stub}"
            );
        }
        for name in ["c", "rust"] {
            if let Some(n) = least(name) {
                let share = (n - stub) * 1000 / (moved - stub);
                out.push((format!("{name}_of_move_permille"), share));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "calibrate nops 1000 1000\ncalibrate loop 2001 2001\norder/3 stub 20 20\n\
                        order/3 move 80 80\norder/3 c 44 45\norder/3 rust 50 50\ndecide/small c 9 9\ndecide/small rust 11 11\n";

    #[test]
    fn metrics_of_a_case() {
        let cases = parse(TEXT).unwrap();
        calibrated(&cases["calibrate"]).unwrap();
        let got: BTreeMap<String, i64> = values("order/3", &cases["order/3"])
            .unwrap()
            .into_iter()
            .collect();
        for (name, value) in [
            ("stub_instructions", 20),
            ("c_instructions", 44),
            ("spread_instructions", 1),
            ("c_of_move_permille", 400),
            ("rust_of_move_permille", 500),
        ] {
            assert_eq!(got.get(name), Some(&value), "{name}");
        }
        assert!(!got.contains_key("rust_above_c_instructions"));
        let got = values("decide/small", &cases["decide/small"]).unwrap();
        assert!(got.contains(&("rust_above_c_instructions".into(), 2)));
        assert_eq!(got.len(), 4);
    }

    #[test]
    fn what_counts_no_instructions_is_refused() {
        for bad in [
            TEXT.replace("nops 1000 1000", "nops 1000 1001"),
            TEXT.replace("loop 2001 2001", "loop 4002 4002"),
            TEXT.replace("calibrate loop", "calibrate lop"),
        ] {
            let known = &parse(&bad).unwrap()["calibrate"];
            assert!(calibrated(known).is_err(), "{bad}");
        }
    }

    #[test]
    fn bad_lines_are_named() {
        for bad in [
            "order/3 c 1",
            "order/3 c one 2",
            "order/3 c -1 2",
            "order/3 c 3 2",
        ] {
            let e = format!("{:#}", parse(bad).unwrap_err());
            assert!(e.contains(bad), "{e}");
        }
        let cases = parse("order/3 stub 20 20\norder/3 move 20 20\n").unwrap();
        assert!(values("order/3", &cases["order/3"]).is_err());
    }
}
