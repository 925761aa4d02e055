// SPDX-License-Identifier: GPL-2.0
//! What a workload has at hand: the channel of results, places for files, swap, cgroups, and settings that are restored.

use crate::cgroup::Cgroup;
use crate::report::{self, Origin};
use crate::swap::SwapArea;
use crate::undo::{self, Undo};
use anyhow::{Context, Result, bail};
use results::{Clock, Kind};
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub struct Lab {
    origin: Origin,
    dir: PathBuf,
    out: File,
    samples: i64,
    verified_words: u64,
    /// In the order in which they were set.
    settings: Vec<Undo>,
}

impl Lab {
    pub fn new(origin: Origin, dir: PathBuf, out: File) -> Lab {
        Lab {
            origin,
            dir,
            out,
            samples: 0,
            verified_words: 0,
            settings: Vec::new(),
        }
    }

    /// One sample: `index` counts those of a case from 0; a value's unit is the end of its name.
    pub fn sample(&mut self, case: &str, index: u32, values: &[(&str, i64)]) -> Result<()> {
        self.sample_with_lists(case, index, values, &[])
    }

    pub fn sample_with_lists(
        &mut self,
        case: &str,
        index: u32,
        values: &[(&str, i64)],
        lists: &[(&str, &[i64])],
    ) -> Result<()> {
        let mut line = self.origin.line(Kind::Sample);
        line.case = case.into();
        line.index = index;
        line.values = values.iter().map(|(k, v)| (k.to_string(), *v)).collect();
        line.lists = lists
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_vec()))
            .collect();
        report::write(&mut self.out, &line)?;
        self.samples += 1;
        Ok(())
    }

    /// Words compared with what was written there; the end of the run states the sum.
    pub fn verified(&mut self, words: u64) {
        self.verified_words += words;
    }

    /// Progress, for whoever watches.
    pub fn say(&self, text: impl Display) {
        eprintln!("{}: {text}", self.origin.workload);
    }

    /// Where files go.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn clock(&self) -> Clock {
        self.origin.clock
    }

    /// A swap file, in use until it is finished or dropped.
    pub fn swap_file(&mut self, mib: u64) -> Result<SwapArea> {
        SwapArea::file(&self.dir, mib)
    }

    /// zram0 as swap, in use until it is finished or dropped.
    pub fn zram_swap(&mut self, mib: u64, algorithm: &str) -> Result<SwapArea> {
        SwapArea::zram(mib, algorithm)
    }

    /// A setting of the whole machine; it has its old value again at the end.
    pub fn set(&mut self, path: &str, value: &str) -> Result<()> {
        self.settings.push(set(path, value)?);
        Ok(())
    }

    /// The same, until the guard goes.
    pub fn set_for_now(&self, path: &str, value: &str) -> Result<Undo> {
        set(path, value)
    }

    /// A fresh group with the memory controller.
    pub fn cgroup(&mut self, name: &str) -> Result<Cgroup> {
        Cgroup::new(name)
    }

    /// Writes the last line: an end, or why there is none. Settings are restored first. True is a good run.
    pub fn finish(mut self, result: Result<()>) -> bool {
        while let Some(setting) = self.settings.pop() {
            drop(setting);
        }
        let result = result.and_then(|()| {
            if self.samples == 0 {
                bail!("the workload ended without a sample");
            }
            let mut line = self.origin.line(Kind::End);
            line.values = [
                ("samples", self.samples),
                ("verified_words", self.verified_words as i64),
                // Each area refuses to go with pages in it.
                ("swap_used_pages", 0),
            ]
            .map(|(k, v)| (k.to_string(), v))
            .into();
            report::write(&mut self.out, &line)
        });
        let Err(e) = result else { return true };
        let message = format!("{e:#}");
        eprintln!("error: {message}");
        if let Err(e) = report::write(&mut self.out, &self.origin.error(&message)) {
            eprintln!("error: {e:#}");
        }
        false
    }
}

fn set(path: &str, value: &str) -> Result<Undo> {
    let old = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let old = chosen(&old).to_string();
    let back = path.to_string();
    // Noted first: a signal may come right after the write.
    let undo = undo::later(move || {
        if let Err(e) = fs::write(&back, &old) {
            eprintln!("cannot restore {back} to `{old}`: {e}; do it by hand");
        }
    });
    fs::write(path, value).with_context(|| format!("cannot write `{value}` to {path}"))?;
    Ok(undo)
}

/// The value to write back: of `always [madvise] never`, what is in brackets.
pub fn chosen(text: &str) -> &str {
    let text = text.trim();
    let Some((_, rest)) = text.split_once('[') else {
        return text;
    };
    rest.split_once(']').map_or(text, |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_comes_back() {
        let file = std::env::temp_dir().join(format!("lab-setting-{}", std::process::id()));
        let path = file.to_str().unwrap();
        fs::write(path, "always [madvise] never\n").unwrap();
        let guard = set(path, "never").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "never");
        drop(guard);
        assert_eq!(fs::read_to_string(path).unwrap(), "madvise");
        fs::remove_file(path).unwrap();
        let e = set(path, "1").unwrap_err().to_string();
        assert!(e.starts_with("cannot read"), "{e}");
    }

    #[test]
    fn values() {
        assert_eq!(chosen("60\n"), "60");
        assert_eq!(chosen("0x0007\n"), "0x0007");
        assert_eq!(chosen("lzo-rle [lzo]\n"), "lzo");
    }
}
