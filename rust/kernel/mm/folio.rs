// SPDX-License-Identifier: GPL-2.0

//! Folios.
//!
//! C header: [`include/linux/mm_types.h`](srctree/include/linux/mm_types.h)

use crate::{
    bindings,
    prelude::*, //
};
use core::marker::PhantomData;

/// A `struct folio`: one or more physically contiguous pages that are managed as one.
///
/// Only tells what a reclaim policy asks. What a folio is can change under its users unless they
/// hold the folio lock; each method says what it takes for its answer to last.
///
/// This is a handle and not a Rust reference, as `struct folio` has the size of several
/// `struct page`, of which a small folio has but one.
///
/// # Invariants
///
/// `ptr` points to a folio, other than a slab, that is not freed during the lifetime `'a`, because
/// somebody holds a reference on it or has frozen its refcount.
///
/// # Examples
///
/// ```
/// use kernel::{
///     mm::folio::Folio,
///     page::Page, //
/// };
///
/// let page = Page::alloc_page(GFP_KERNEL)?;
///
/// // SAFETY: A page of order 0 is a folio, and `page` keeps it alive beyond the last use.
/// let folio = unsafe { Folio::from_raw(page.as_ptr().cast()) };
///
/// assert_eq!(folio.order(), 0);
/// assert!(!folio.is_anon());
/// assert!(!folio.is_swapcache());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Folio<'a> {
    ptr: *mut bindings::folio,
    _alive: PhantomData<&'a bindings::folio>,
}

impl Folio<'_> {
    /// Creates a [`Folio`] from a raw pointer.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a folio, other than a slab, that is not freed during the lifetime of the
    /// returned object.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut bindings::folio) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self {
            ptr,
            _alive: PhantomData,
        }
    }

    /// Returns a raw pointer to the underlying `struct folio`.
    #[inline]
    pub fn as_raw(self) -> *mut bindings::folio {
        self.ptr
    }

    /// Returns the order of the folio: it spans `1 << order` pages.
    ///
    /// Stable while the caller holds the folio lock, as only its holder can split the folio.
    #[inline]
    pub fn order(self) -> c_uint {
        // SAFETY: The folio exists by the type invariants.
        unsafe { bindings::folio_order(self.as_raw()) }
    }

    /// Checks if the folio holds anonymous memory, including pages that KSM has merged.
    ///
    /// Stable while the folio is mapped, and while the caller holds the folio lock.
    #[inline]
    pub fn is_anon(self) -> bool {
        // SAFETY: The folio exists by the type invariants.
        unsafe { bindings::folio_test_anon(self.as_raw()) }
    }

    /// Checks if the folio is in the swap cache.
    ///
    /// Stable while the caller holds the folio lock. Always `false` without `CONFIG_SWAP`.
    #[inline]
    pub fn is_swapcache(self) -> bool {
        // SAFETY: The folio exists by the type invariants.
        unsafe { bindings::folio_test_swapcache(self.as_raw()) }
    }
}
