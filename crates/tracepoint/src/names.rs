//! Names for kernel addresses in payloads.

/// Names for kernel addresses in payloads.
pub trait KernelNames {
    /// Returns the kernel function at an address, and the byte distance from its start.
    fn kernel_function(&self, address: u64) -> Option<(&str, u64)>;

    /// Returns the kernel's string constant at an address (`printk_formats` in tracefs).
    fn kernel_string(&self, address: u64) -> Option<&str>;
}

impl KernelNames for () {
    fn kernel_function(&self, _: u64) -> Option<(&str, u64)> {
        None
    }

    fn kernel_string(&self, _: u64) -> Option<&str> {
        None
    }
}
