//! Programs of other compilers, compared with objdump and llvm-symbolizer.

use std::path::PathBuf;

use super::{against_objdump, lines};
use crate::support::{Here, needs};

const FORTRAN: &str = "
program spin
  implicit none
  real(8) :: a(200, 200), b(200, 200), c(200, 200), finish, now
  integer :: i, j
  do j = 1, 200
    do i = 1, 200
      a(i, j) = i + 2 * j
      b(i, j) = i - j
    end do
  end do
  call cpu_time(finish)
  finish = finish + 0.5
  do
    call multiply(a, b, c)
    call cpu_time(now)
    if (now > finish) exit
  end do
  print *, c(7, 9)
contains
  subroutine multiply(x, y, z)
    real(8), intent(in) :: x(:, :), y(:, :)
    real(8), intent(out) :: z(:, :)
    integer :: row, column, k
    do column = 1, size(z, 2)
      do row = 1, size(z, 1)
        z(row, column) = 0
        do k = 1, size(x, 2)
          z(row, column) = z(row, column) + x(row, k) * y(k, column)
        end do
      end do
    end do
  end subroutine
end program
";

/// Link-time optimization inlines one file into the other.
const HASH: &str = "
unsigned mix(unsigned h, unsigned c) {
    h ^= c;
    h *= 16777619u;
    h ^= h >> 15;
    h += c << 7;
    h *= 2246822519u;
    h ^= h >> 13;
    h -= c >> 3;
    h *= 3266489917u;
    return h ^ h >> 16;
}
unsigned table[256];
__attribute__((noinline)) void prepare(unsigned seed) { for (unsigned i = 0; i < 256; i++) table[i] = mix(seed, i); }
";

const SPIN: &str = "
#include <time.h>
unsigned mix(unsigned h, unsigned c);
void prepare(unsigned seed);
extern unsigned table[256];
__attribute__((noinline)) unsigned walk(unsigned h, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        h = mix(h, table[(h ^ i) & 255]);
    return h;
}
int main(void) {
    unsigned h = 1;
    while (clock() < CLOCKS_PER_SEC * 6 / 10) {
        prepare(h);
        h = walk(h, 20000);
    }
    return h == 7;
}
";

/// Go's tables differ from C's.
const GO: &str = r#"package main

import (
	"fmt"
	"time"
)

var table [256]uint32

func mix(h uint32, c uint32) uint32 {
	h ^= c
	h *= 16777619
	return h ^ h>>15
}

//go:noinline
func walk(h uint32, n int) uint32 {
	for i := 0; i < n; i++ {
		h = mix(h, table[(h^uint32(i))&255])
		if h%97 == 0 {
			h = h/13 + 7
		}
	}
	return h
}

//go:noinline
func prepare(seed uint32) {
	for i := range table {
		table[i] = mix(seed, uint32(i))
	}
}

func main() {
	h := uint32(1)
	for begin := time.Now(); time.Since(begin) < 600*time.Millisecond; {
		prepare(h)
		h = walk(h, 200000)
	}
	fmt.Println(h)
}
"#;

fn built(here: &Here, files: &[(&str, &str)], command: &str) -> PathBuf {
    for (name, text) in files {
        std::fs::write(here.path(name), text).expect("cannot write a source");
    }
    here.sh(command).ok();
    here.path("spin")
}

fn fortran(here: &Here) -> PathBuf {
    built(
        here,
        &[("spin.f90", FORTRAN)],
        "gfortran -O2 -g -o spin spin.f90",
    )
}

#[test]
fn fortran_is_as_objdump_and_llvm_symbolizer_have_it() {
    needs!(
        PerfEvents,
        X86_64,
        Tool("gfortran"),
        Tool("objdump"),
        Tool("llvm-symbolizer")
    );
    let here = Here::new();
    let program = fortran(&here);
    against_objdump::check("Fortran", &here, &program);
    lines::check("Fortran", &here, &program);
}

#[test]
fn go_is_as_objdump_and_llvm_symbolizer_have_it() {
    needs!(
        PerfEvents,
        X86_64,
        Go,
        Tool("objdump"),
        Tool("llvm-symbolizer")
    );
    let here = Here::new();
    std::fs::write(here.path("spin.go"), GO).expect("cannot write a source");
    let program = here.path("spin");
    rprof_testing::build_go(&here.path("."), &program, &[]);
    against_objdump::check("Go", &here, &program);
    lines::check("Go", &here, &program);
}

#[test]
fn link_time_optimisation_of_gcc_is_as_objdump_and_llvm_symbolizer_have_it() {
    needs!(
        PerfEvents,
        X86_64,
        Tool("gcc"),
        Tool("objdump"),
        Tool("llvm-symbolizer")
    );
    let here = Here::new();
    let files = [("hash.c", HASH), ("spin.c", SPIN)];
    let build = "gcc -O2 -g -flto=auto -o spin spin.c hash.c";
    let program = built(&here, &files, build);
    against_objdump::check("gcc -flto", &here, &program);
    lines::check("gcc -flto", &here, &program);
}
