// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of `mm/vmscan_policy.rs`.
//!
//! The C suites, in `vmscan_split_kunit.c` and `vmscan_inactive_kunit.c`, run on whatever
//! implementation is built, through the functions that reclaim calls. The tests here look at what
//! those cannot reach: the ordering apart from the kernel's split, and the rule for the lists apart
//! from its caller.

use super::*;
use kernel::{
    interop::list::CListHead,
    macros::kunit_tests, //
};

/// Nodes to be linked into lists, known by their number.
///
/// They are only ever touched through raw pointers, as the list under test does.
struct Nodes(KVec<bindings::list_head>);

impl Nodes {
    fn new(len: usize) -> Result<Self> {
        Ok(Self(KVec::from_elem(
            bindings::list_head::default(),
            len,
            GFP_KERNEL,
        )?))
    }

    fn node(&mut self, id: usize) -> *mut bindings::list_head {
        self.0.as_mut_ptr().wrapping_add(id)
    }

    /// # Safety
    ///
    /// `id` must be below the length, the node on no list yet, and `self` must outlive the list.
    unsafe fn add_tail(&mut self, id: usize, list: &mut CListMut<'_>) {
        // SAFETY: By the safety requirements; `list` may be changed while it is borrowed.
        unsafe { bindings::list_add_tail(self.node(id), list.as_raw()) };
    }

    /// Checks that `list` holds just the nodes `ids`, in this order, and that both directions
    /// agree.
    fn are_on(&mut self, list: &mut CListMut<'_>, ids: impl Iterator<Item = usize>) -> bool {
        let head = list.as_raw();
        let mut last = head;

        for id in ids {
            let node = self.node(id);

            // SAFETY: `last` is the head or a node, both of which are initialized.
            if unsafe { (*last).next } != node || unsafe { (*node).prev } != last {
                return false;
            }
            last = node;
        }

        // SAFETY: As above.
        unsafe { (*last).next == head && (*head).prev == last }
    }
}

/// A folio that exists in name only: enough for the tests in `wants_order()`.
struct FakeFolio(bindings::folio);

const ANON: usize = bindings::FOLIO_MAPPING_ANON as usize;
const SWAPCACHE: usize =
    (1 << bindings::pageflags_PG_swapbacked) | (1 << bindings::pageflags_PG_swapcache);

impl FakeFolio {
    fn new(mapping: usize, flags: usize) -> Self {
        let mut folio = bindings::folio::default();

        // These are fields that all variants of the union share.
        folio.__bindgen_anon_1.__bindgen_anon_1.mapping = mapping as *mut _;
        folio.__bindgen_anon_1.__bindgen_anon_1.flags.f = flags;
        folio.__bindgen_anon_1.__bindgen_anon_1._refcount.counter = 1;
        Self(folio)
    }

    fn get(&mut self) -> Folio<'_> {
        // SAFETY: `self` is borrowed, has a refcount of one, and is not a slab.
        unsafe { Folio::from_raw(&raw mut self.0) }
    }
}

/// The order of [`FakeFolio`], which is to pass for that of a THP.
const PMD_ORDER: c_uint = 0;

/// Splits an eligible folio with `existing` entries on the list, where the split has put `children`
/// on it when it ends with `result`, and checks the outcome.
fn split_ends_well(existing: usize, children: usize, result: Result) -> Result<bool> {
    let all = existing + children;
    let mut nodes = Nodes::new(all)?;
    let mut folio = FakeFolio::new(ANON, 0);

    stack_pin_init!(let head = CListHead::new());
    // SAFETY: The head and all nodes are only used here.
    let mut list = unsafe { CListMut::from_raw(head.as_raw()) };

    for id in 0..existing {
        // SAFETY: The first use of this node, and the list is gone before `nodes`.
        unsafe { nodes.add_tail(id, &mut list) };
    }

    let returned = split_for_swap(folio.get(), list.reborrow(), PMD_ORDER, |_, list| {
        for id in existing..all {
            // SAFETY: As above.
            unsafe { nodes.add_tail(id, list) };
        }
        result
    });

    // On success what reclaim, from the tail, is to meet first is last on the list.
    let id_at = |place| {
        if result.is_ok() && place >= existing {
            existing + all - 1 - place
        } else {
            place
        }
    };

    Ok(nodes.are_on(&mut list, (0..all).map(id_at)) && returned == result)
}

/// Splits a folio that is not to be ordered, and checks that the split was left alone.
fn split_is_plain(mut folio: FakeFolio, pmd_order: c_uint) -> Result<bool> {
    let mut nodes = Nodes::new(4)?;
    let mut same_list = false;

    stack_pin_init!(let head = CListHead::new());
    let raw = head.as_raw();
    // SAFETY: The head and all nodes are only used here.
    let mut list = unsafe { CListMut::from_raw(raw) };

    // SAFETY: The first use of this node, and the list is gone before `nodes`.
    unsafe { nodes.add_tail(0, &mut list) };

    let returned = split_for_swap(folio.get(), list.reborrow(), pmd_order, |_, list| {
        same_list = list.as_raw() == raw;
        for id in 1..4 {
            // SAFETY: As above.
            unsafe { nodes.add_tail(id, list) };
        }
        Ok(())
    });

    Ok(returned.is_ok() && same_list && nodes.are_on(&mut list, 0..4))
}

/// A generator whose sequence is the same in every run (xorshift64).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit) as usize
    }
}

const ERRORS: [Error; 3] = [EAGAIN, EBUSY, ENOMEM];

#[kunit_tests(rust_vmscan_split_order)]
mod split_order {
    use super::*;

    #[test]
    fn children_ascend_from_tail() -> Result {
        for children in [0, 1, 2, 3, 15, 511] {
            assert!(split_ends_well(0, children, Ok(()))?);
        }
        Ok(())
    }

    #[test]
    fn existing_entries_keep_place() -> Result {
        for children in [0, 1, 2, 3, 15, 511] {
            assert!(split_ends_well(7, children, Ok(()))?);
        }
        Ok(())
    }

    #[test]
    fn failure_keeps_split_order_and_errno() -> Result {
        for error in ERRORS {
            for children in 0..=15 {
                assert!(split_ends_well(0, children, Err(error))?);
                assert!(split_ends_well(3, children, Err(error))?);
            }
            assert!(split_ends_well(0, 511, Err(error))?);
            assert!(split_ends_well(3, 511, Err(error))?);
        }
        Ok(())
    }

    #[test]
    fn small_scope_exhaustive() -> Result {
        for existing in 0..=4 {
            for children in 0..=6 {
                assert!(split_ends_well(existing, children, Ok(()))?);
                for error in ERRORS {
                    assert!(split_ends_well(existing, children, Err(error))?);
                }
            }
        }
        Ok(())
    }

    #[test]
    fn random_10000() -> Result {
        let mut seq = Sequence(0x5eed);

        for _ in 0..10_000 {
            let existing = seq.below(16);
            let children = seq.below(64);
            let result = match seq.below(6) {
                0 => Err(EAGAIN),
                1 => Err(EBUSY),
                2 => Err(ENOMEM),
                _ => Ok(()),
            };

            assert!(split_ends_well(existing, children, result)?);
        }
        Ok(())
    }

    #[test]
    fn file_folio_is_plain() -> Result {
        assert!(split_is_plain(FakeFolio::new(0, 0), PMD_ORDER)?);
        Ok(())
    }

    #[cfg(CONFIG_SWAP)]
    #[test]
    fn swapcache_folio_is_plain() -> Result {
        assert!(split_is_plain(FakeFolio::new(ANON, SWAPCACHE), PMD_ORDER)?);
        Ok(())
    }

    #[test]
    fn other_order_is_plain() -> Result {
        for pmd_order in 1..16 {
            assert!(split_is_plain(FakeFolio::new(ANON, 0), pmd_order)?);
        }
        Ok(())
    }
}

#[kunit_tests(rust_vmscan_inactive_list)]
mod inactive_list {
    use super::*;

    /// Pages in 1 GiB.
    const GB: usize = 1 << (30 - PAGE_SHIFT);

    fn by_size(inactive: usize, active: usize) -> bool {
        list_is_low(0, 0, inactive, active)
    }

    #[test]
    fn empty_lists_are_not_low() {
        assert!(!by_size(0, 0));
        assert!(by_size(0, 1));
        assert!(!by_size(1, 0));
    }

    #[test]
    fn below_1gb_lists_are_balanced_evenly() {
        for half in [1, 1280, 12800, GB / 2 - 1] {
            assert!(!by_size(half, half));
            assert!(!by_size(half + 1, half));
            assert!(by_size(half, half + 1));
        }
    }

    /// The table on `inactive_is_low()`: total size and target ratio.
    #[test]
    fn ratio_follows_the_table() {
        for (gb, ratio) in [(1, 3), (10, 10), (100, 31), (1024, 101), (10240, 320)] {
            // Half a GiB more than the total of the table, for neighbours to have the same ratio.
            let inactive = (GB * gb + GB / 2) / (ratio + 1);

            assert!(!by_size(inactive, inactive * ratio));
            assert!(by_size(inactive, inactive * ratio + 1));
            assert!(by_size(inactive - 1, inactive * ratio));
        }
    }

    #[test]
    fn arithmetic_wraps() {
        // The sum wraps to less than 1 GiB, where the ratio is 1.
        assert!(!by_size(usize::MAX, 1));
        assert!(by_size(1, usize::MAX));

        // It wraps to more than that, and the product to minus the ratio.
        assert!(by_size(usize::MAX, usize::MAX));

        // 2^63 pages and 1033169 GiB more, in pages of 4 KiB, have a ratio of 18757498. It is
        // even, so the product wraps to 0; one GiB less, and it is odd and does not.
        #[cfg(CONFIG_64BIT)]
        if PAGE_SHIFT == 12 {
            assert!(by_size(1 << 63, GB * 1_033_169));
            assert!(!by_size(1 << 63, GB * 1_033_168));
        }
    }

    #[test]
    fn any_change_of_refaults_decides() {
        for (refaults, snapshot) in [(1, 0), (0, 1), (0, usize::MAX), (usize::MAX, 0), (7, 9)] {
            assert!(list_is_low(refaults, snapshot, 0, 0));
            assert!(list_is_low(refaults, snapshot, usize::MAX, 0));
            assert!(list_is_low(refaults, snapshot, GB, 1));
        }
    }

    #[test]
    fn equal_refaults_leave_it_to_the_sizes() {
        for refaults in [0, 1, usize::MAX / 2, usize::MAX] {
            assert!(!list_is_low(refaults, refaults, 0, 0));
            assert!(!list_is_low(refaults, refaults, 100, 100));
            assert!(list_is_low(refaults, refaults, 100, 101));
        }
    }
}
