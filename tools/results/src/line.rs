// SPDX-License-Identifier: GPL-2.0
//! One JSON object a line. Every line says where it comes from, so that none can be taken for another's.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Goes up when a field changes its meaning.
pub const SCHEMA: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lru {
    /// Active and inactive lists; what `inactive_list_is_low()` decides about.
    Classic,
    /// The multi-generational LRU (`lru_gen`).
    Mglru,
}

/// What a `_ns` value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Nothing that anyone may quote: an emulated CPU without icount. Counts are exact.
    Counts,
    /// Guest instructions, one a nanosecond (QEMU's icount, shift 0, one vCPU).
    Icount,
    /// CPU and wall time of a real machine.
    Cpu,
}

/// How the disk's memory accesses are translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Iommu {
    /// Each request is mapped.
    #[default]
    Translate,
    /// There is one, and the device sees physical addresses.
    Passthrough,
    /// The machine has none.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Sample,
    /// The workload failed, and why; nothing of the run counts.
    Error,
    /// The last line of a run that did everything it set out to do. Without it the run is truncated.
    End,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub schema: u32,
    pub kind: Kind,
    /// `uname -r`.
    pub kernel: String,
    /// The arm, as the kernel itself names it in its release; `host` for a kernel that is not the lab's.
    pub arm: String,
    pub lru: Lru,
    /// `tcg`, `kvm`, or `host`.
    pub accel: String,
    pub clock: Clock,
    pub workload: String,
    /// What was varied within the workload, such as `thp/1`.
    pub case: String,
    /// Which of several samples of the case, from 0.
    pub index: u32,
    /// Metrics. The unit is the end of the name (`_ns`, `_kib`, `_bytes`, `_pages`); without one it is a count.
    pub values: BTreeMap<String, i64>,
    /// Sequences, such as page frame numbers in the order they were written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, Vec<i64>>,
    /// Why, of an [`Kind::Error`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Line {
    pub fn parse(text: &str) -> Result<Line> {
        let line: Line = serde_json::from_str(text)
            .with_context(|| format!("not a line of the lab's guest: `{}`", shorten(text)))?;
        if line.schema != SCHEMA {
            bail!(
                "schema {} where this lab reads {SCHEMA}: the guest and the lab are of different versions; rebuild both",
                line.schema
            );
        }
        Ok(line)
    }

    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("strings and integers")
    }
}

impl fmt::Display for Lru {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lru::Classic => "classic",
            Lru::Mglru => "mglru",
        })
    }
}

impl fmt::Display for Iommu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Iommu::Translate => "translate",
            Iommu::Passthrough => "passthrough",
            Iommu::None => "none",
        })
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::Counts => "counts",
            Clock::Icount => "icount",
            Clock::Cpu => "cpu",
        })
    }
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn sample(arm: &str, case: &str, values: &[(&str, i64)]) -> Line {
        Line {
            schema: SCHEMA,
            kind: Kind::Sample,
            kernel: format!("7.3.4-{arm}"),
            arm: arm.into(),
            lru: Lru::Classic,
            accel: "tcg".into(),
            clock: Clock::Counts,
            workload: "pageout".into(),
            case: case.into(),
            index: 0,
            values: values.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
            lists: BTreeMap::new(),
            message: String::new(),
        }
    }

    #[test]
    fn a_line_survives_the_way() {
        let mut line = sample("rust", "thp/1", &[("bios", 65)]);
        line.lists.insert("pfns".into(), vec![3, 2, 1]);
        assert_eq!(Line::parse(&line.json()).unwrap(), line);
        assert!(!line.json().contains('\n'));
    }

    #[test]
    fn foreign_and_truncated_lines_are_refused() {
        let whole = sample("rust", "thp/1", &[("bios", 65)]).json();
        for bad in [
            "",
            "[    1.0] Linux version",
            "{}",
            &whole[..whole.len() / 2],
            &whole.replace("\"bios\":65", "\"bios\":6.5"),
            &whole.replace("\"kind\"", "\"sort\":1,\"kind\""),
        ] {
            let e = format!("{:#}", Line::parse(bad).unwrap_err());
            assert!(e.contains("not a line of the lab's guest"), "{e}");
        }
        let e = Line::parse(&whole.replace("\"schema\":1", "\"schema\":9")).unwrap_err();
        assert!(e.to_string().contains("rebuild both"), "{e}");
    }
}
