// The kernel that shows what a launch costs by itself. It is compiled like those of the library.
#include "../../../kernels/common.cuh"

extern "C" __global__ void bench_empty() {
    launch_later_kernels();
    wait_for_earlier_kernels();
}
