// SPDX-License-Identifier: GPL-2.0
//! One run at a time in a folder.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

/// The lock of a build folder, by which `make clean` also knows that the folder is ours.
pub const FILE: &str = "series.lock";

/// Held until dropped, or until the process ends however it ends.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for its turn, saying for whom.
    pub fn take(path: &Path, what: &str) -> Result<Lock> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let mut told = false;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if !told {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                crate::step::say(format!(
                    "waiting: process {} is using {what} ({})",
                    pid.trim(),
                    path.display()
                ));
                told = true;
            }
            crate::step::check_interrupt()?;
            std::thread::sleep(Duration::from_millis(200));
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Lock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_taker_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path, "a test").unwrap();
        let start = std::time::Instant::now();
        std::thread::scope(|s| {
            s.spawn(|| Lock::take(&path, "a test").unwrap());
            std::thread::sleep(Duration::from_millis(300));
            drop(first);
        });
        assert!(start.elapsed() >= Duration::from_millis(300));
    }
}
