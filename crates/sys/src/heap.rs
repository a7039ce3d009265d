//! The allocator's habits, where they cost many threads or many processes memory.

/// At most `arenas` heaps for all threads of this process. By itself the C library gives up to eight threads a processor a
/// heap each, of which even a thread that allocates next to nothing makes several pages dirty. Call it before there are threads.
pub fn share(arenas: usize) {
    // Other C libraries have one heap anyway.
    #[cfg(target_env = "gnu")]
    {
        let arenas = libc::c_int::try_from(arenas.max(1)).unwrap_or(libc::c_int::MAX);
        // SAFETY: mallopt(3) sets a number of the allocator's under its lock; any positive one is valid here.
        let _unknown_to_other_allocators = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _one_is_all_there_is = arenas;
}

/// Puts the heap of this process in order before it forks. Otherwise every child would do so sooner or later, and thereby make
/// pages its own that it has no use for.
pub fn tidy_up() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim(3) has no precondition; it works on free memory only, under the allocator's lock.
        let _whether_any_was_given_back = unsafe { libc::malloc_trim(0) };
    }
}
