//! Programs of other compilers beside objdump and llvm-symbolizer.

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
