"""Native kernels: IR written as text, compiled by LLVM. Without llvmlite everything here is simply not used."""
