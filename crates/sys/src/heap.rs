//! The allocator's habits, where they cost many threads or many processes memory.

#[cfg(target_env = "gnu")]
use std::sync::{Mutex, PoisonError};

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

/// Puts the heap of this process in order before it forks. What is free is given back to the system or, where it lies between
/// pieces that are in use, set aside until the next call: a child then takes its memory from the end of the heap, side by side,
/// where it would otherwise make a page its own for nearly every piece.
pub fn tidy_up() {
    #[cfg(target_env = "gnu")]
    {
        static ASIDE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
        let mut aside = ASIDE.lock().unwrap_or_else(PoisonError::into_inner);
        aside.clear();
        // SAFETY: malloc_trim(3) has no precondition; it works on free memory only, under the allocator's lock.
        let _whether_any_was_given_back = unsafe { libc::malloc_trim(0) };
        set_free_pieces_aside(&mut aside);
    }
}

/// Larger pieces are cut up when smaller ones are asked for.
#[cfg(target_env = "gnu")]
const PIECE_MAX: usize = 1024;
/// Pieces that are set aside at most. A parent's heap has a few hundred.
#[cfg(target_env = "gnu")]
const ASIDE_MAX: usize = 16 * 1024;
/// The C library hands out multiples of this.
#[cfg(target_env = "gnu")]
const GRAIN: usize = 16;

#[cfg(target_env = "gnu")]
fn set_free_pieces_aside(aside: &mut Vec<Vec<u8>>) {
    aside.reserve_exact(ASIDE_MAX);
    // Large ones first: the allocator would cut them up for small ones.
    for bytes in (1..=PIECE_MAX / GRAIN).rev().map(|grains| grains * GRAIN + GRAIN / 2) {
        let end = end_in_use();
        while aside.len() < ASIDE_MAX {
            let piece = Vec::with_capacity(bytes);
            let was_free = (piece.as_ptr() as usize) < end;
            aside.push(piece);
            if !was_free {
                break;
            }
        }
    }
}

/// Where the heap's last free piece begins, from which memory is cut when no other piece fits.
#[cfg(target_env = "gnu")]
fn end_in_use() -> usize {
    // SAFETY: sbrk(2) with 0 changes nothing.
    let end = unsafe { libc::sbrk(0) } as usize;
    // SAFETY: mallinfo2(3) has no precondition.
    end.saturating_sub(unsafe { libc::mallinfo2() }.keepcost)
}
