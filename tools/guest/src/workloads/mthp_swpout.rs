// SPDX-License-Identifier: GPL-2.0
//! `mthp-swpout`: does swap have room for 64 kB folios as wholes, after many of them came and went?

mod area;
mod rand;

use crate::lab::Lab;
use crate::workload::{Needs, Workload};
use anyhow::{Context, Result, bail, ensure};
use area::Area;
use rand::Rand;
use std::fs;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Variant {
    /// The thread's program: units are released at random and refilled, then everything is paged out.
    Mail,
    /// As tools/mm/thp_swap_allocator_test.c: swap is filled first, and small pages are swapped in at random too.
    Tree,
}

/// Share of 64 kB folios that swap could not take whole.
///
/// Source: Barry Song, "Re: [PATCH v2 0/2] mm: swap: mTHP swap allocator base on swap cluster order", 15 June 2024.
/// 64 MiB of zram (lzo) is the only swap; 64 kB folios are always used, 2 MiB ones never. Each iteration releases
/// units of the region at random, refills them and pages the region out. Reported per iteration: `swpout` (64 kB
/// folios swapped out whole) and `swpout_fallback` (split first), from the folio size's own statistics, and `refilled`
/// (units that were filled, so that should be swapped out). The random numbers are the C library's rand() from
/// `--seed`, so with seed 1 `refilled` of the default sizes is that of the thread's tables: 226, 224, 221, 231, …
/// The fallback share today is expected to be 0.
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct MthpSwpout {
    /// Also a region of small folios, whose swap entries come between those of the large ones
    #[arg(long)]
    small: bool,
    #[arg(long, value_enum, default_value = "mail")]
    variant: Variant,
    #[arg(long, default_value_t = 100)]
    iterations: u32,
    /// Region of 64 kB folios
    #[arg(long, default_value_t = 60)]
    large_mib: u32,
    /// How much of it is released and refilled in each iteration
    #[arg(long, default_value_t = 16)]
    refill_mib: u32,
    /// Region of small folios; 1024, and 4096 in the tree's variant
    #[arg(long)]
    small_kib: Option<u32>,
    /// How much of it is refilled in each iteration; a quarter
    #[arg(long)]
    small_refill_kib: Option<u32>,
    /// Size of the swap device
    #[arg(long, default_value_t = 64)]
    zram_mib: u32,
    #[arg(long, default_value = "lzo")]
    algorithm: String,
    /// Where the random numbers start
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

/// All in pages of 4 KiB.
#[derive(Debug, PartialEq)]
struct Sizes {
    large: usize,
    refill: usize,
    small: usize,
    small_refill: usize,
}

impl MthpSwpout {
    fn sizes(&self) -> Result<Sizes> {
        let small_kib = self.small_kib.unwrap_or(match self.variant {
            Variant::Mail => 1024,
            Variant::Tree => 4096,
        });
        let small_refill = self.small_refill_kib.unwrap_or(small_kib / 4);
        let sizes = Sizes {
            large: self.large_mib as usize * 256,
            refill: self.refill_mib as usize * 256,
            small: if self.small {
                small_kib as usize / 4
            } else {
                0
            },
            small_refill: if self.small {
                small_refill as usize / 4
            } else {
                0
            },
        };
        ensure!(
            sizes.large > 0,
            "--large-mib 0: there would be nothing to swap"
        );
        ensure!(
            !self.small || sizes.small > 0,
            "--small-kib: a page is 4 KiB"
        );
        // The first page of a swap area is its header: of regions just as large, one page stays in memory.
        let (need, have) = (sizes.large + sizes.small, self.zram_mib as usize * 256);
        if need > have {
            bail!(
                "{} MiB in both regions do not fit into {} MiB of swap, so fallback would prove nothing: raise \
                 --zram-mib, or lower --large-mib or --small-kib",
                need.div_ceil(256),
                self.zram_mib
            );
        }
        Ok(sizes)
    }

    fn case(&self) -> String {
        let tree = match self.variant {
            Variant::Mail => "",
            Variant::Tree => "tree/",
        };
        format!("{tree}large{}", if self.small { "+small" } else { "" })
    }
}

impl Workload for MthpSwpout {
    fn name(&self) -> &'static str {
        "mthp-swpout"
    }

    /// Both regions may be in memory and compressed at once.
    fn needs(&self) -> Needs {
        let pages = self.sizes().map_or(0, |s| s.large + s.small);
        Needs {
            memory_mib: 2 * pages as u64 / 256 + 64,
            thp: true,
            zram: true,
            ..Needs::default()
        }
    }

    fn run(&self, lab: &mut Lab) -> Result<()> {
        let sizes = self.sizes()?;
        only_64kb_folios(lab)?;
        let swap = lab.zram_swap(self.zram_mib.into(), &self.algorithm)?;
        let mut large = Area::large(sizes.large)?;
        let mut small = match sizes.small {
            0 => None,
            pages => Some(Area::small(pages)?),
        };
        let mut rand = Rand::new(self.seed);
        if self.variant == Variant::Tree {
            for area in std::iter::once(&mut large).chain(&mut small) {
                area.fill_all();
                area.page_out()?;
            }
        }
        for index in 0..self.iterations {
            let before = Stats::now()?;
            let refilled = self.iterate(&mut rand, &sizes, &mut large, small.as_mut(), lab)?;
            let after = Stats::now()?;
            let values = [
                ("swpout", after.swpout - before.swpout),
                ("swpout_fallback", after.fallback - before.fallback),
                ("refilled", refilled as i64),
            ];
            lab.sample(&self.case(), index, &values)?;
        }
        lab.say("verifying");
        for area in std::iter::once(&large).chain(&small) {
            lab.verified(area.verify()?);
        }
        drop((large, small));
        swap.finish()
    }
}

impl MthpSwpout {
    /// Units of the large region that were refilled, each counted once.
    fn iterate(
        &self,
        rand: &mut Rand,
        sizes: &Sizes,
        large: &mut Area,
        mut small: Option<&mut Area>,
        lab: &mut Lab,
    ) -> Result<usize> {
        let tree = self.variant == Variant::Tree;
        if tree {
            lab.verified(large.swap_in(rand, sizes.refill)?);
        }
        let refilled = large.refill(rand, sizes.refill)?;
        if let Some(small) = small.as_deref_mut() {
            if tree {
                lab.verified(small.swap_in(rand, sizes.small_refill)?);
            } else {
                small.refill(rand, sizes.small_refill)?;
            }
        }
        large.page_out()?;
        if let Some(small) = small {
            small.page_out()?;
        }
        Ok(refilled)
    }
}

fn only_64kb_folios(lab: &mut Lab) -> Result<()> {
    let size = format!("{THP}/hugepages-64kB");
    ensure!(
        fs::exists(&size).unwrap_or(false),
        "{size} does not exist: this needs Linux 6.10 or later with CONFIG_TRANSPARENT_HUGEPAGE"
    );
    lab.set(&format!("{THP}/hugepages-2048kB/enabled"), "never")?;
    lab.set(&format!("{size}/enabled"), "always")
}

fn stat(name: &str) -> Result<i64> {
    let path = format!("{THP}/hugepages-64kB/stats/{name}");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.trim()
        .parse()
        .with_context(|| format!("{path} is `{}`, not a number", text.trim()))
}

/// Folios swapped out whole, and split first.
struct Stats {
    swpout: i64,
    fallback: i64,
}

impl Stats {
    fn now() -> Result<Stats> {
        Ok(Stats {
            swpout: stat("swpout")?,
            fallback: stat("swpout_fallback")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: MthpSwpout,
    }

    fn args(text: &str) -> MthpSwpout {
        Cli::parse_from(["x"].into_iter().chain(text.split_whitespace())).args
    }

    #[test]
    fn sizes_of_the_sources() {
        let sizes = args("--small").sizes().unwrap();
        let want = Sizes {
            large: 60 * 256,
            refill: 16 * 256,
            small: 256,
            small_refill: 64,
        };
        assert_eq!(sizes, want);
        assert_eq!(args("").sizes().unwrap().small, 0);
        let tree = args("--variant tree --small");
        assert_eq!(tree.sizes().unwrap().small, 1024);
        assert_eq!(tree.case(), "tree/large+small");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (text, want) in [
            ("--large-mib 65", "raise --zram-mib"),
            ("--small --small-kib 4100", "do not fit into 64 MiB"),
            ("--large-mib 0", "nothing to swap"),
            ("--small --small-kib 3", "a page is 4 KiB"),
        ] {
            let e = args(text).sizes().unwrap_err().to_string();
            assert!(e.contains(want), "{text}: {e}");
        }
    }
}
