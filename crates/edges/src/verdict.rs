//! [`EdgeVerdict`]: whether the code allows a caller and its callee.

/// Result of checking one caller and its callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EdgeVerdict {
    /// The call names the callee's function.
    Direct,
    /// The call names a function that jumps to the callee's: tail calls, cold parts.
    Jump,
    /// The call leads there through a linkage table or a pointer of the dynamic linker.
    External,
    /// Like [`External`](Self::External), through a resolver (`STT_GNU_IFUNC`).
    Resolver,
    /// The callee is the dynamic linker's search for the called function.
    Lazy,
    /// The call goes through a pointer, and something names the callee's address.
    Indirect,
    /// A direct call, to code that jumps through a pointer; something names the callee's address.
    Open,
    /// The handler of a signal, the code that it interrupted, or a call that a handler injected.
    Signal,
    /// The return address is a root that no call has written, such as `__start_context`.
    Root,
    /// The callee has just loaded the stack pointer of another stack, such as `longjmp`.
    Switched,
    /// Generated code, or a missing image, on one side.
    Unchecked,
    /// The bytes before the return address form a call, but not as the code is decoded.
    Unclear,
    /// No call stands before the return address.
    NoCall,
    /// The call cannot lead to the callee.
    WrongTarget,
    /// The call goes through a pointer, but nothing names the callee's address.
    NotNamed,
}

impl EdgeVerdict {
    /// Returns true if the caller cannot have called the callee.
    pub const fn is_impossible(self) -> bool {
        matches!(self, Self::NoCall | Self::WrongTarget | Self::NotNamed)
    }

    /// Returns false if one side has no code to look at.
    pub const fn is_checked(self) -> bool {
        !matches!(self, Self::Unchecked)
    }

    /// Returns a short description.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Jump => "by jumps",
            Self::External => "through a linkage table",
            Self::Resolver => "through a resolver",
            Self::Lazy => "lazy binding",
            Self::Indirect => "through a pointer",
            Self::Open => "by a jump through a pointer",
            Self::Signal => "signal",
            Self::Root => "root",
            Self::Switched => "other stack",
            Self::Unchecked => "not checked",
            Self::Unclear => "unclear code",
            Self::NoCall => "no call before the return address",
            Self::WrongTarget => "the call leads elsewhere",
            Self::NotNamed => "nothing names the callee",
        }
    }
}
