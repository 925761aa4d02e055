// SPDX-License-Identifier: GPL-2.0
//! A lab's folder, and what is asked of it: boots of an arm, values of a metric, series of an index.

use crate::stats::{Boot, median};
use anyhow::{Context, Result, bail};
use results::{Clock, Expectation, Iommu, Line, Lru, Run, Sizes};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// `lab.json`, of which nothing is needed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Info {
    pub command: Option<String>,
    pub date: Option<String>,
    pub qemu: Option<String>,
    pub kernel: Option<String>,
    /// The tree each arm was built from.
    pub arms: BTreeMap<String, String>,
    /// Of each arm's objects.
    pub sizes: BTreeMap<String, Sizes>,
    /// What the object with the policies in Rust takes from elsewhere, by arm.
    pub needs: BTreeMap<String, Vec<String>>,
    pub complete: Option<bool>,
}

pub struct Lab {
    pub info: Info,
    pub runs: Vec<Run>,
    /// Of `lab/expect.tsv`, if it was named.
    pub expectations: Option<Vec<Expectation>>,
}

impl Lab {
    pub fn read(dir: &Path, expect: Option<&Path>) -> Result<Lab> {
        let runs = dir.join("runs");
        let none = || {
            format!(
                "{} holds no finished run: `make lab` makes a folder with runs below build/lab and names it",
                dir.display()
            )
        };
        if !runs.is_dir() {
            bail!(none());
        }
        let runs = results::load(&runs)?;
        if runs.is_empty() {
            bail!(none());
        }
        Ok(Lab {
            info: info(&dir.join("lab.json"))?,
            runs,
            expectations: expect.map(expectations).transpose()?,
        })
    }

    /// The rows of the plan that ran this workload, by name.
    pub fn groups(&self, workload: &str) -> Vec<Group<'_>> {
        let mut by_plan: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in self.runs.iter().filter(|r| r.meta.workload == workload) {
            by_plan.entry(&run.meta.plan).or_default().push(run);
        }
        by_plan
            .into_iter()
            .map(|(plan, mut runs)| {
                runs.sort_by_key(|r| (r.meta.boot, r.meta.round, r.name.clone()));
                Group { plan, runs }
            })
            .collect()
    }
}

fn info(path: &Path) -> Result<Info> {
    if !path.is_file() {
        return Ok(Info::default());
    }
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| {
        format!(
            "{} is damaged: remove it, which costs only the report's first lines",
            path.display()
        )
    })
}

fn expectations(path: &Path) -> Result<Vec<Expectation>> {
    let text = fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read {}; --expect names lab/expect.tsv",
            path.display()
        )
    })?;
    Expectation::parse(&text)
}

/// The runs of one row of the plan, in the order they were booted.
pub struct Group<'a> {
    pub plan: &'a str,
    pub runs: Vec<&'a Run>,
}

impl<'a> Group<'a> {
    pub fn lru(&self) -> Lru {
        self.runs[0].meta.lru
    }

    pub fn clock(&self) -> Clock {
        self.runs[0].meta.clock
    }

    pub fn args(&self) -> &str {
        &self.runs[0].meta.args
    }

    /// What follows `name` among the arguments of the workload.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.args().split(' ');
        words.find(|w| *w == name)?;
        words.next()
    }

    pub fn device(&self) -> &str {
        &self.runs[0].meta.device
    }

    pub fn iommu(&self) -> Iommu {
        self.runs[0].meta.iommu
    }

    /// In the order of the series: the kernels without it, in C, in Rust, and the broken one.
    pub fn arms(&self) -> Vec<String> {
        let mut arms: Vec<String> = self.runs.iter().map(|r| r.meta.arm.clone()).collect();
        arms.sort_by_key(|a| (rank(a), a.clone()));
        arms.dedup();
        arms
    }

    /// What the others are held against.
    pub fn first_arm(&self) -> String {
        let base = self.arms().into_iter().find(|a| a.starts_with("base"));
        base.unwrap_or_else(|| self.runs[0].meta.arm.clone())
    }

    /// Those of the samples, but for warm-ups.
    pub fn cases(&self) -> Vec<String> {
        let mut cases: Vec<String> = self.lines(None).map(|l| l.case.clone()).collect();
        cases.retain(|c| !c.ends_with("/warmup"));
        cases.sort();
        cases.dedup();
        cases
    }

    fn lines<'s>(&'s self, arm: Option<&'s str>) -> impl Iterator<Item = &'a Line> + 's {
        self.runs
            .iter()
            .filter(move |r| arm.is_none_or(|a| r.meta.arm == a))
            .flat_map(|r| &r.samples)
    }

    pub fn metrics(&self, case: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .lines(None)
            .filter(|l| l.case == case)
            .flat_map(|l| l.values.keys().cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// A value a boot.
    pub fn boots(&self, arm: &str, case: &str, metric: &str) -> Vec<Boot> {
        self.runs
            .iter()
            .filter(|r| r.meta.arm == arm)
            .filter_map(|run| {
                let values: Vec<f64> = run
                    .samples
                    .iter()
                    .filter(|l| l.case == case)
                    .filter_map(|l| l.values.get(metric))
                    .map(|&v| v as f64)
                    .collect();
                Some(Boot {
                    round: run.meta.round,
                    number: run.meta.boot,
                    value: median(&values)?,
                })
            })
            .collect()
    }

    /// Every count of every boot: a median would hide the sample that differs.
    pub fn counts(&self, arm: &str, case: &str, metric: &str) -> Vec<i64> {
        self.lines(Some(arm))
            .filter(|l| l.case == case)
            .filter_map(|l| l.values.get(metric).copied())
            .collect()
    }

    /// What a boot counted over all indexes of the case, a value a boot.
    pub fn sums(&self, arm: &str, case: &str, metric: &str) -> Vec<i64> {
        self.runs
            .iter()
            .filter(|r| r.meta.arm == arm)
            .filter_map(|run| {
                let values: Vec<i64> = run
                    .samples
                    .iter()
                    .filter(|l| l.case == case)
                    .filter_map(|l| l.values.get(metric).copied())
                    .collect();
                (!values.is_empty()).then(|| values.iter().sum())
            })
            .collect()
    }

    /// By index, the median of the boots.
    pub fn series(&self, arm: &str, case: &str, metric: &str) -> Vec<(f64, f64)> {
        let mut by_index: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for line in self.lines(Some(arm)).filter(|l| l.case == case) {
            if let Some(&value) = line.values.get(metric) {
                by_index.entry(line.index).or_default().push(value as f64);
            }
        }
        by_index
            .into_iter()
            .filter_map(|(i, v)| Some((f64::from(i), median(&v)?)))
            .collect()
    }

    /// The first list of that name that an arm reported.
    pub fn list(&self, arm: &str, case: &str, name: &str) -> Option<&'a [i64]> {
        self.lines(Some(arm))
            .filter(|l| l.case == case)
            .find_map(|l| l.lists.get(name))
            .map(Vec::as_slice)
    }

    /// The samples of an arm's first boot that carry a list.
    pub fn listed(&self, arm: &str, case: &str, name: &str) -> Vec<&'a Line> {
        let Some(run) = self.runs.iter().find(|r| r.meta.arm == arm) else {
            return Vec::new();
        };
        let samples = run.samples.iter();
        samples
            .filter(|l| l.case == case && l.lists.contains_key(name))
            .collect()
    }

    /// A sentence for each arm of which not every boot reported a metric that another one did.
    pub fn gaps(&self, case: &str, metrics: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        for metric in metrics {
            if self
                .arms()
                .iter()
                .all(|a| self.boots(a, case, metric).is_empty())
            {
                continue;
            }
            for run in &self.runs {
                let here = run.samples.iter().filter(|l| l.case == case);
                if !here.clone().any(|l| l.values.contains_key(*metric)) {
                    out.push(format!("run {} reported no `{metric}` of {case}", run.name));
                }
            }
        }
        out
    }
}

fn rank(arm: &str) -> usize {
    let order = ["base", "c", "rust", "all-c", "all-rust"];
    let family = arm.strip_suffix("-counted").unwrap_or(arm);
    order
        .iter()
        .position(|a| *a == family)
        .unwrap_or(order.len())
}
