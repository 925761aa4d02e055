// SPDX-License-Identifier: GPL-2.0

//! Policies of page reclaim.
//!
//! Decisions that `mm/vmscan.c` leaves to Rust with `CONFIG_VMSCAN_RUST`: in which order reclaim
//! meets the pages of a THP that it had to split, and when the inactive list is too short. C does
//! what needs locks, statistics or `struct scan_control`; what is here works on numbers and on
//! lists that belong to the current task. Nothing here allocates or panics.
//!
//! C header: [`mm/vmscan_policy.h`](srctree/mm/vmscan_policy.h)

use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    interop::list::{
        CListMut,
        CListStage, //
    },
    mm::folio::Folio,
    page::PAGE_SHIFT,
    prelude::*,
};
use pin_init::stack_pin_init;

/// Checks if the children of `folio` are worth ordering when it is split to be swapped out.
///
/// These are anonymous THPs on their way to swap; see `split_folio_for_swap()` in `mm/vmscan.c`.
/// The caller holds the folio lock.
fn wants_order(folio: Folio<'_>, pmd_order: c_uint) -> bool {
    folio.is_anon() && !folio.is_swapcache() && folio.order() == pmd_order
}

/// Splits `folio` so that whoever takes entries from the tail of `list` meets its children in
/// ascending order.
///
/// `split` adds the children to the tail of the list it is given, in ascending order. If it fails,
/// what it has added joins `list` in that order, and its error is returned.
fn split_for_swap<F>(
    folio: Folio<'_>,
    mut list: CListMut<'_>,
    pmd_order: c_uint,
    split: F,
) -> Result
where
    F: FnOnce(Folio<'_>, &mut CListMut<'_>) -> Result,
{
    if !wants_order(folio, pmd_order) {
        return split(folio, &mut list);
    }

    // Its drop adds the children to `list`, after a failure too.
    stack_pin_init!(let stage = CListStage::new(list));
    let mut children = stage.as_mut().list();

    split(folio, &mut children)?;
    children.reverse();

    Ok(())
}

/// Checks if the inactive list is too short, or does not hold what is being used.
///
/// `refaults` against `snapshot` tell if refaults were seen; `inactive` and `active`, in pages, do
/// not matter then. The target ratio and the reason for it are in the comment on
/// `inactive_is_low()` in `mm/vmscan.c`. All arithmetic wraps as it does in C.
fn list_is_low(refaults: usize, snapshot: usize, inactive: usize, active: usize) -> bool {
    if refaults != snapshot {
        return true;
    }

    let gb = inactive.wrapping_add(active) >> (30 - PAGE_SHIFT);
    let ratio = if gb > 0 {
        // SAFETY: `int_sqrt()` has no preconditions.
        unsafe { bindings::int_sqrt(gb.wrapping_mul(10)) }
    } else {
        1
    };

    inactive.wrapping_mul(ratio) < active
}

/// `split_folio_for_swap()` of `mm/vmscan.c` for `pmd_order` being `HPAGE_PMD_ORDER`.
///
/// Returns 0 or the negative errno of the split. May sleep.
///
/// # Safety
///
/// - `folio` must point to a folio that the caller holds a reference on, has locked and has
///   isolated from the LRU.
/// - `folio_list` must point to the head of a list that, with all of its entries, nobody else
///   accesses during the call, other than by marked reads of their `next`.
#[export]
pub unsafe extern "C" fn split_folio_for_swap_rust(
    folio: *mut bindings::folio,
    folio_list: *mut bindings::list_head,
    pmd_order: c_uint,
) -> c_int {
    // SAFETY: By the safety requirements, and folios on the LRU are not slabs.
    let folio = unsafe { Folio::from_raw(folio) };
    // SAFETY: By the safety requirements.
    let list = unsafe { CListMut::from_raw(folio_list) };

    from_result(|| {
        split_for_swap(folio, list, pmd_order, |folio, list| {
            // SAFETY: The folio is locked and isolated, and we have `list` to ourselves. The split
            // adds children to its tail, each with a reference that belongs to the list, so they
            // are valid for as long as they are on it or on `folio_list`.
            to_result(unsafe { bindings::__split_folio_for_swap(folio.as_raw(), list.as_raw()) })
        })
        .map(|()| 0)
    })
}

/// `inactive_is_low()` of `mm/vmscan.c`.
///
/// Refault counters are monotonic and wrap; list sizes are in pages. Any context.
///
/// # Safety
///
/// There is nothing to observe; it is unsafe because that is how C functions are declared in Rust.
#[export]
pub unsafe extern "C" fn inactive_is_low_rust(
    refaults: c_ulong,
    snapshot: c_ulong,
    inactive: c_ulong,
    active: c_ulong,
) -> bool {
    list_is_low(refaults, snapshot, inactive, active)
}

#[cfg(CONFIG_VMSCAN_RUST_KUNIT_TEST)]
#[path = "tests/vmscan_policy_kunit.rs"]
mod tests;
