"""What tests of several folders share: places, processes, compilers, fake GPUs."""
