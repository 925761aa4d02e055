// SPDX-License-Identifier: GPL-2.0
//! A run is one boot: a folder with `run.json`, `results.jsonl`, `console.log` and `qemu.txt`. `run.json` is written
//! last, and only of a run that passed every gate: a folder without it is no run.

use crate::line::{Clock, Iommu, Kind, Line, Lru};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What the lab says about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// The row of the plan.
    pub plan: String,
    pub workload: String,
    pub args: String,
    pub arm: String,
    pub lru: Lru,
    pub clock: Clock,
    pub accel: String,
    pub cpus: u32,
    pub memory_mib: u32,
    /// What swap is on: `nvme`, `nvme-mdts0`, `virtio-blk`. A run from before there was a choice had an NVMe disk behind
    /// an IOMMU that translates.
    #[serde(default = "nvme")]
    pub device: String,
    #[serde(default)]
    pub iommu: Iommu,
    /// From 0. A round has one boot of each arm of the row, the first arm twice.
    pub round: u32,
    /// The place in the row's order of boots, from 0: drift shows along it.
    pub boot: u32,
    /// What the kernel was built from: a git tree.
    pub source: String,
}

fn nvme() -> String {
    "nvme".into()
}

#[derive(Clone, Debug)]
pub struct Run {
    /// The folder's name.
    pub name: String,
    pub meta: Meta,
    /// Samples alone.
    pub samples: Vec<Line>,
}

/// All runs below `dir` (`runs/` of a lab's folder), by name.
pub fn load(dir: &Path) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        let file = path.join("run.json");
        if !file.is_file() {
            continue;
        }
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let meta: Meta = serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} is damaged: remove its folder and run the lab again",
                file.display()
            )
        })?;
        let lines = path.join("results.jsonl");
        let text = fs::read_to_string(&lines)
            .with_context(|| format!("cannot read {}", lines.display()))?;
        let samples = samples(&text, &meta).with_context(|| lines.display().to_string())?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        runs.push(Run {
            name,
            meta,
            samples,
        });
    }
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(runs)
}

/// The samples of a whole run: every line readable and of this run, none lost, an end.
pub fn samples(text: &str, meta: &Meta) -> Result<Vec<Line>> {
    let mut out = Vec::new();
    let mut ended = false;
    for (i, text) in text.lines().enumerate() {
        let at = || format!("line {}", i + 1);
        let line = Line::parse(text).with_context(at)?;
        foreign(&line, meta).with_context(at)?;
        if ended {
            bail!("{}: a line after the end of the run", at());
        }
        match line.kind {
            Kind::Error => bail!("{}: the workload failed: {}", at(), line.message),
            Kind::Sample => out.push(line),
            Kind::End => {
                let said = line.values.get("samples").copied();
                if said != Some(out.len() as i64) {
                    bail!(
                        "{}: the guest wrote {} samples and {} arrived",
                        at(),
                        said.unwrap_or(-1),
                        out.len()
                    );
                }
                ended = true;
            }
        }
    }
    if !ended {
        bail!(
            "truncated: {} samples and no end; the guest died or hung, its console says why",
            out.len()
        );
    }
    if out.is_empty() {
        bail!("the run ended without a sample");
    }
    Ok(out)
}

fn foreign(line: &Line, meta: &Meta) -> Result<()> {
    let want = [
        ("arm", &line.arm, &meta.arm),
        ("workload", &line.workload, &meta.workload),
        ("accelerator", &line.accel, &meta.accel),
    ];
    for (what, got, want) in want {
        if got != want {
            bail!("{what} is `{got}`, and this is a run of `{want}`: arms or runs were mixed up");
        }
    }
    if line.lru != meta.lru || line.clock != meta.clock {
        bail!(
            "{} LRU and clock {}, and this is a run of {} and {}",
            line.lru,
            line.clock,
            meta.lru,
            meta.clock
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::sample;

    fn meta() -> Meta {
        Meta {
            plan: "pageout-counts".into(),
            workload: "pageout".into(),
            args: "--pages thp".into(),
            arm: "rust".into(),
            lru: Lru::Classic,
            clock: Clock::Counts,
            accel: "tcg".into(),
            cpus: 2,
            memory_mib: 2048,
            device: "nvme".into(),
            iommu: Iommu::Translate,
            round: 0,
            boot: 1,
            source: "0123456789ab".into(),
        }
    }

    fn text(end: i64) -> String {
        let one = sample("rust", "thp/1", &[("bios", 65)]);
        let mut last = sample("rust", "", &[("samples", end)]);
        last.kind = Kind::End;
        format!("{}\n{}\n", one.json(), last.json())
    }

    #[test]
    fn whole() {
        assert_eq!(samples(&text(1), &meta()).unwrap().len(), 1);
    }

    #[test]
    fn nothing_partial_counts() {
        let whole = text(1);
        let first = whole.lines().next().unwrap().to_string();
        let error = first
            .replace("\"kind\":\"sample\"", "\"kind\":\"error\"")
            .replacen('{', "{\"message\":\"no THP\",", 1);
        for (text, want) in [
            (format!("{first}\n"), "truncated: 1 samples and no end"),
            (String::new(), "truncated: 0 samples"),
            (text(2), "the guest wrote 2 samples and 1 arrived"),
            (format!("{whole}{first}\n"), "after the end"),
            (
                whole.replace("\"rust\"", "\"base\""),
                "arm is `base`, and this is a run of `rust`",
            ),
            (whole.replace("classic", "mglru"), "mglru LRU"),
            (error, "line 1: the workload failed: no THP"),
            (
                whole
                    .replacen("65", "6", 1)
                    .replacen("\"schema\":1", "\"schema\":2", 1),
                "schema 2",
            ),
        ] {
            let e = format!("{:#}", samples(&text, &meta()).unwrap_err());
            assert!(e.contains(want), "{want}: {e}");
        }
    }

    #[test]
    fn a_folder_without_run_json_is_no_run() {
        let dir = tempfile_dir();
        let run = dir.join("a");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("results.jsonl"), text(1)).unwrap();
        assert!(load(&dir).unwrap().is_empty());
        fs::write(run.join("run.json"), serde_json::to_vec(&meta()).unwrap()).unwrap();
        assert_eq!(load(&dir).unwrap().len(), 1);
        fs::write(run.join("run.json"), "{").unwrap();
        assert!(format!("{:#}", load(&dir).unwrap_err()).contains("damaged"));
        fs::remove_dir_all(&dir).unwrap();
    }

    fn tempfile_dir() -> std::path::PathBuf {
        std::env::temp_dir().join(format!("lab-results-{}", std::process::id()))
    }
}
