// SPDX-License-Identifier: GPL-2.0
//! What was laid last: the refs, and beside them a note in the tree's git folder.

use super::lay::Laid;
use super::patches::patches_key;
use super::{BASE, LAID, PREREQ};
use crate::files::write_whole;
use crate::git::git;
use crate::step::{Ctx, capture};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct State {
    pub source: String,
    /// Of the patches as they were laid or exported; empty before that.
    pub patches: String,
}

impl State {
    fn file(dir: &Path) -> PathBuf {
        dir.join(".git/series.json")
    }

    pub fn read(dir: &Path) -> State {
        let text = fs::read_to_string(State::file(dir)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub fn write(&self, dir: &Path) -> Result<()> {
        write_whole(&State::file(dir), &serde_json::to_vec(self)?)
    }
}

pub fn record(ctx: &Ctx, dir: &Path, base: &str, laid: &Laid, source: &str) -> Result<()> {
    for (name, commit) in [(BASE, base), (PREREQ, &laid.prereq), (LAID, &laid.head)] {
        capture(git(dir).args(["update-ref", name, commit]))?;
    }
    let state = State {
        source: source.into(),
        patches: patches_key(ctx)?,
    };
    state.write(dir)
}

/// After an export: what HEAD holds and what patches/ holds is the same.
pub fn record_export(ctx: &Ctx, dir: &Path) -> Result<()> {
    capture(git(dir).args(["update-ref", LAID, "HEAD"]))?;
    let mut state = State::read(dir);
    state.patches = patches_key(ctx)?;
    state.write(dir)
}

/// Whether patches/ is what was last laid or exported here.
pub fn patches_unchanged(ctx: &Ctx, dir: &Path) -> Result<bool> {
    Ok(State::read(dir).patches == patches_key(ctx)?)
}
