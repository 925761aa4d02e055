// SPDX-License-Identifier: GPL-2.0
//! How large the objects of a kernel are, and what that may differ by between arms.

use crate::expect::{bounds, range};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of an object or of vmlinux: code, what is only read, and the rest, zeroed or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub text: u64,
    pub rodata: u64,
    pub data: u64,
}

/// By file, as `mm/vmscan.o`.
pub type Sizes = BTreeMap<String, Size>;

impl Size {
    /// From what `llvm-size -A` prints. Tables that go with code (unwinding, alternatives, tracepoints) are in none.
    pub fn parse(text: &str) -> Result<Size> {
        let mut size = Size::default();
        for line in text.lines() {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let [name, bytes, _address] = cells[..] else {
                continue;
            };
            let begins = |with: &[&str]| with.iter().any(|w| name.starts_with(w));
            let sum = if begins(&[".text", ".init.text", ".exit.text", ".ref.text"]) {
                &mut size.text
            } else if begins(&[".rodata", ".init.rodata"]) {
                &mut size.rodata
            } else if begins(&[".data", ".init.data", ".ref.data", ".bss"]) {
                &mut size.data
            } else {
                continue;
            };
            let bytes: u64 = bytes
                .parse()
                .with_context(|| format!("size of section {name}: `{bytes}`"))?;
            *sum += bytes;
        }
        if size.text == 0 {
            bail!("no code: is it an object?");
        }
        Ok(size)
    }
}

/// A row of `lab/sizes.tsv`: code of some files of one arm against those of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub arm: String,
    pub against: String,
    pub files: Vec<String>,
    pub least: i64,
    pub most: i64,
    pub means: String,
}

impl Limit {
    pub fn parse(tsv: &str) -> Result<Vec<Limit>> {
        let rows = tsv.lines().enumerate();
        rows.filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
            .map(|(i, l)| limit(l).with_context(|| format!("lab/sizes.tsv:{}: `{l}`", i + 1)))
            .collect()
    }

    /// By how many bytes of code the arm exceeds the other; nothing when one of them was not built.
    pub fn growth(&self, arms: &BTreeMap<String, Sizes>) -> Option<i64> {
        // An object that an arm does not have takes nothing.
        let sum = |arm: &str| -> Option<i64> {
            let sizes = arms.get(arm)?;
            let texts = self.files.iter().filter_map(|f| sizes.get(f));
            Some(texts.map(|s| s.text as i64).sum())
        };
        Some(sum(&self.arm)? - sum(&self.against)?)
    }

    /// Why it does not hold.
    pub fn broken(&self, arms: &BTreeMap<String, Sizes>) -> Option<String> {
        let allowed = self.least..=self.most;
        let growth = self.growth(arms).filter(|g| !allowed.contains(g))?;
        Some(format!(
            "{}: {} has {growth:+} bytes of code against {}, expected {}: {}",
            self.files.join(" + "),
            self.arm,
            self.against,
            self.allowed(),
            self.means
        ))
    }

    pub fn allowed(&self) -> String {
        range(self.least, self.most)
    }
}

fn limit(line: &str) -> Result<Limit> {
    let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [arm, against, files, least, most, means] = cells[..] else {
        bail!("want 6 cells: arm, against, files, least, most, what it means");
    };
    let (least, most) = bounds(least, most)?;
    Ok(Limit {
        arm: arm.into(),
        against: against.into(),
        files: files.split(' ').map(str::to_string).collect(),
        least,
        most,
        means: means.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTIONS: &str = "mm/vmscan.o  :\nsection size addr\n.text 100 0\n.init.text 20 0\n.rodata.str1.1 7 0\n\
                            .data 5 0\n.bss 3 0\n.orc_unwind 999 0\nTotal 1134\n";
    const TSV: &str =
        "# c\nrust\tc\tmm/vmscan.o mm/vmscan_policy.o\t-\t10\tRust may take a little more\n";

    fn arm(vmscan: u64, policy: u64) -> Sizes {
        let size = |text| Size {
            text,
            ..Size::default()
        };
        let mut sizes = Sizes::from([("mm/vmscan.o".into(), size(vmscan))]);
        if policy > 0 {
            sizes.insert("mm/vmscan_policy.o".into(), size(policy));
        }
        sizes
    }

    #[test]
    fn sections_are_told_apart() {
        let size = Size::parse(SECTIONS).unwrap();
        assert_eq!((size.text, size.rodata, size.data), (120, 7, 8));
        assert!(Size::parse("x.o :\nsection size addr\n.data 5 0\n").is_err());
        assert!(Size::parse(&SECTIONS.replace("100", "ten")).is_err());
    }

    #[test]
    fn growth_is_held_against_the_limit() {
        let limit = &Limit::parse(TSV).unwrap()[0];
        let mut arms = BTreeMap::from([("c".to_string(), arm(1000, 0))]);
        assert_eq!(limit.growth(&arms), None);
        arms.insert("rust".into(), arm(900, 110));
        assert_eq!(limit.growth(&arms), Some(10));
        assert_eq!(limit.broken(&arms), None);
        arms.insert("rust".into(), arm(900, 111));
        let why = limit.broken(&arms).unwrap();
        assert!(
            why.contains("rust has +11 bytes of code against c, expected at most 10"),
            "{why}"
        );
    }

    #[test]
    fn bad_rows_are_named() {
        for bad in ["rust\tc", &TSV.replace("\t10\t", "\tten\t")] {
            let e = format!("{:#}", Limit::parse(bad).unwrap_err());
            assert!(e.contains("lab/sizes.tsv:"), "{e}");
        }
    }
}
