// SPDX-License-Identifier: GPL-2.0
//! The shapes, how large each is, and whether that fits.

use super::{Thrash, Touch};
use anyhow::{Result, bail, ensure};

/// The memory for which the sizes below are: the thread's machine.
const SEED_MIB: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Shape {
    /// The thread's: anonymous memory as large as the machine's, then a file read in rounds. Anonymous 2048, file 200
    Seed,
    /// One working set gives way to another: a file was read twice and is active, then another is read in rounds. The ratio of
    /// the lists calls the inactive one low only when it is shorter than the active one; refaults are seen at once.
    /// Anonymous 1500, active file 300, file 400
    Transition,
    /// A file read in rounds while another streams by, whose pages keep the inactive list long: as long as it is longer
    /// than the active list, only refaults say that anonymous pages should be looked at. Anonymous 1792, file 256, stream
    /// 3072, 4 pages of it a page; memory.stat is read every 32 pages
    Mixed,
    /// Temporary files, as of a sort or a build: written, read back once when as many others have been written, removed. A page
    /// that is refaulted is activated and soon gone, so the active list stays short and the ratio never calls the
    /// inactive list low: nearly every decision is the refault comparison's. A reclaim finds enough in the files before it has
    /// looked at more than a few anonymous pages, so little comes of it in 10 rounds. Anonymous 1536, ring 480; memory.stat is
    /// read every 32 pages
    Spill,
    /// The reviewers' counter-case: readers of a file larger than memory, which should not swap out anonymous memory
    /// beside them. Anonymous 1024, file 2304, 4 readers, 1 round
    Streaming,
}

impl Shape {
    pub fn case(self) -> &'static str {
        match self {
            Shape::Seed => "rounds",
            Shape::Transition => "transition",
            Shape::Mixed => "mixed",
            Shape::Spill => "spill",
            Shape::Streaming => "readers",
        }
    }
}

/// In MiB, but for counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    pub shape: Shape,
    /// The limit of the cgroup, or 0.
    pub memcg: u64,
    pub anon: u64,
    pub file: u64,
    pub active_file: u64,
    pub stream: u64,
    pub stream_pages: u32,
    pub touch: Touch,
    pub stat_every: u32,
    pub ring: u64,
    pub rounds: u32,
    pub readers: u32,
    pub swap: u64,
    no_swapping: bool,
}

impl Sizes {
    pub fn of(args: &Thrash) -> Result<Sizes> {
        let shape = args.shape.unwrap_or(match args.readers {
            Some(_) => Shape::Streaming,
            None => Shape::Seed,
        });
        let scale = |mib: u64| match args.memcg_mib {
            0 => mib,
            limit => mib * limit / SEED_MIB,
        };
        // Anonymous, file, active file, stream, ring.
        let own = match shape {
            Shape::Seed => [2048, 200, 0, 0, 0],
            Shape::Transition => [1500, 400, 300, 0, 0],
            Shape::Mixed => [1792, 256, 0, 3072, 0],
            Shape::Spill => [1536, 0, 0, 0, 480],
            Shape::Streaming => [1024, 2304, 0, 0, 0],
        };
        let given = [
            ("--anon-mib", args.anon_mib),
            ("--file-mib", args.file_mib),
            ("--active-file-mib", args.active_file_mib),
            ("--stream-mib", args.stream_mib),
            ("--ring-mib", args.ring_mib),
        ];
        let mut mib = [0; 5];
        for (i, (name, given)) in given.into_iter().enumerate() {
            if own[i] == 0 && given.is_some() {
                bail!(
                    "{name} means nothing to shape {}: leave it out",
                    shape.case()
                );
            }
            mib[i] = given.unwrap_or(scale(own[i]));
            if own[i] != 0 && mib[i] == 0 {
                bail!("{name} is 0: give a size, or a larger --memcg-mib");
            }
        }
        let [anon, file, active_file, stream, ring] = mib;
        ensure!(
            shape == Shape::Mixed || args.stream_pages.is_none(),
            "--stream-pages means nothing to shape {}: leave it out",
            shape.case()
        );
        ensure!(
            file > 0 && shape != Shape::Streaming || args.touch.is_none(),
            "--touch means nothing to shape {}: leave it out",
            shape.case()
        );
        ensure!(
            shape == Shape::Streaming || args.readers.is_none(),
            "--readers means nothing to shape {}: leave one of them out",
            shape.case()
        );
        let sizes = Sizes {
            shape,
            memcg: args.memcg_mib,
            anon,
            file,
            active_file,
            stream,
            stream_pages: args.stream_pages.unwrap_or(4),
            touch: args.touch.unwrap_or(match shape {
                Shape::Mixed => Touch::MmapRandom,
                _ => Touch::Mmap,
            }),
            stat_every: args.stat_every.unwrap_or(match shape {
                Shape::Mixed | Shape::Spill => 32,
                _ => 0,
            }),
            ring,
            rounds: args
                .rounds
                .unwrap_or(if shape == Shape::Streaming { 1 } else { 10 }),
            readers: args.readers.unwrap_or(4),
            swap: 0,
            no_swapping: args.swappiness == Some(0),
        };
        ensure!(
            sizes.rounds > 0,
            "--rounds 0: there would be nothing to report"
        );
        ensure!(
            (1..=64).contains(&sizes.readers),
            "--readers {}: from 1 to 64",
            sizes.readers
        );
        // All of it, should it come to that, and clusters that are not filled.
        let swap = args.swap_mib.unwrap_or(sizes.anon * 9 / 8 + 16);
        Ok(Sizes { swap, ..sizes })
    }

    pub fn disk_mib(&self) -> u64 {
        let spilled = if self.shape == Shape::Spill {
            self.ring * 5 / 4
        } else {
            0
        };
        self.swap + self.file + self.active_file + self.stream + spilled + 64
    }

    /// A part of the ring.
    pub fn segment(&self) -> u64 {
        (self.ring / 64).max(1)
    }

    /// On a machine with `total` MiB.
    pub fn fit(&self, total: u64) -> Result<()> {
        let limit = if self.memcg == 0 { total } else { self.memcg };
        if self.memcg != 0 && self.memcg + 64 > total {
            bail!(
                "a cgroup of {} MiB on a machine of {total} MiB has no limit to meet: lower --memcg-mib",
                self.memcg
            );
        }
        // The kernel, page tables and this program take some of it too.
        let usable = limit - limit / 8;
        if self.anon > usable + self.swap {
            bail!(
                "{} MiB of anonymous memory do not fit into {limit} MiB of memory and {} MiB of swap: raise --swap-mib \
                 or lower --anon-mib",
                self.anon,
                self.swap
            );
        }
        if self.no_swapping && self.anon > limit * 3 / 4 {
            bail!(
                "with --swappiness 0 the {} MiB of anonymous memory must stay in {limit} MiB of memory: lower --anon-mib \
                 to {} or less",
                self.anon,
                limit * 3 / 4
            );
        }
        if self.shape == Shape::Streaming && self.file <= limit {
            bail!(
                "a file of {} MiB is not larger than {limit} MiB of memory, so readers would find it cached: raise --file-mib",
                self.file
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Thrash,
    }

    fn sizes(text: &str) -> Result<Sizes> {
        let args = ["x"].into_iter().chain(text.split_whitespace());
        Sizes::of(&Cli::parse_from(args).args)
    }

    #[test]
    fn the_default_is_the_seed_s() {
        let s = sizes("").unwrap();
        assert_eq!(
            (s.shape, s.anon, s.file, s.rounds),
            (Shape::Seed, 2048, 200, 10)
        );
        s.fit(1980).unwrap();
        // What the lab's guest has.
        assert!(s.disk_mib() < 6000);
    }

    #[test]
    fn a_cgroup_scales_what_is_not_given() {
        let s = sizes("--memcg-mib 256 --rounds 3").unwrap();
        assert_eq!((s.anon, s.file, s.rounds), (256, 25, 3));
        let s = sizes("--memcg-mib 256 --file-mib 40").unwrap();
        assert_eq!(s.file, 40);
    }

    #[test]
    fn every_shape_fits_its_machine() {
        for shape in ["seed", "transition", "mixed", "spill", "streaming"] {
            let s = sizes(&format!("--shape {shape}")).unwrap();
            s.fit(1980).unwrap();
            assert!(s.disk_mib() < 6000, "{shape}: {}", s.disk_mib());
            let s = sizes(&format!("--shape {shape} --memcg-mib 512")).unwrap();
            s.fit(1980).unwrap();
        }
    }

    #[test]
    fn readers_are_a_shape() {
        let s = sizes("--readers 2").unwrap();
        assert_eq!((s.shape, s.readers, s.rounds), (Shape::Streaming, 2, 1));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, want) in [
            ("--ring-mib 5", "--ring-mib means nothing to shape rounds"),
            ("--shape spill --readers 4", "--readers means nothing"),
            ("--stream-pages 4", "--stream-pages means nothing"),
            ("--readers 4 --touch read", "--touch means nothing"),
            ("--file-mib 0", "--file-mib is 0"),
            (
                "--memcg-mib 4",
                "--file-mib is 0: give a size, or a larger --memcg-mib",
            ),
            ("--rounds 0", "nothing to report"),
            ("--readers 65", "from 1 to 64"),
        ] {
            let e = sizes(text).unwrap_err().to_string();
            assert!(e.contains(want), "{text}: {e}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (text, want) in [
            ("--swap-mib 100", "raise --swap-mib"),
            ("--swappiness 0", "lower --anon-mib to 1485"),
            ("--readers 4 --file-mib 1500", "raise --file-mib"),
            ("--memcg-mib 1950", "lower --memcg-mib"),
        ] {
            let e = sizes(text).unwrap().fit(1980).unwrap_err().to_string();
            assert!(e.contains(want), "{text}: {e}");
        }
    }
}
