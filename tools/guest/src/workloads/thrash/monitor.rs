// SPDX-License-Identifier: GPL-2.0
//! Somebody who watches: reading memory.stat flushes the counters of refaults that reclaim compares, which the kernel itself
//! does every two seconds only.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub struct Monitor {
    stat: Option<File>,
    every: u32,
    pages: u32,
    buffer: Vec<u8>,
}

impl Monitor {
    /// `every` so many pages that the workload accessed; 0 is never.
    pub fn new(cgroup: &Path, every: u32) -> Result<Monitor> {
        let path = cgroup.join("memory.stat");
        let stat = match every {
            0 => None,
            _ => Some(File::open(&path).with_context(|| {
                format!(
                    "cannot open {}: --stat-every needs cgroup v2",
                    path.display()
                )
            })?),
        };
        Ok(Monitor {
            stat,
            every,
            pages: 0,
            buffer: vec![0; 16 << 10],
        })
    }

    /// `pages` more were accessed.
    pub fn tick(&mut self, pages: u32) -> Result<()> {
        let Some(stat) = &self.stat else {
            return Ok(());
        };
        self.pages += pages;
        if self.pages >= self.every {
            self.pages = 0;
            stat.read_at(&mut self.buffer, 0)
                .context("cannot read memory.stat")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_so_many_pages() {
        let dir = std::env::temp_dir().join(format!("lab-monitor-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("memory.stat"), "anon 1\n").unwrap();
        let mut monitor = Monitor::new(&dir, 32).unwrap();
        monitor.tick(31).unwrap();
        assert_eq!(monitor.buffer[0], 0);
        monitor.tick(1).unwrap();
        assert_eq!((monitor.buffer[0], monitor.pages), (b'a', 0));
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(Monitor::new(&dir, 1).is_err());
        Monitor::new(&dir, 0).unwrap().tick(9).unwrap();
    }
}
