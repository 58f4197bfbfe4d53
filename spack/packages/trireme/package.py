# Trireme as a Spack package.
# SPDX-License-Identifier: Apache-2.0
# tests/style/spack_options.sh holds its CMake arguments and the options of the build
# equal.
import os
import re

from spack.package import *

try:  # Spack 1.0 and later keep the build systems in the repository of packages
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
    from spack_repo.builtin.build_systems.cuda import CudaPackage

    compilers_are_packages = True
except ImportError:  # before, spack.package has them
    compilers_are_packages = False


class Trireme(CMakePackage, CudaPackage):
    """Distributed training of large language models as one MPI program."""

    # This file lies in the sources: they are what is built, and no network is needed.
    # Spack 1.x comes here by a link.
    git = "file://" + os.path.abspath(
        os.path.join(os.path.dirname(os.path.realpath(__file__)), os.pardir, os.pardir, os.pardir)
    )
    homepage = git

    tags = ["ai", "hpc", "mpi"]

    license("Apache-2.0")

    version("main", branch="main")

    variant("nccl", default=True, when="+cuda", description="Collectives between GPUs by NCCL")
    variant(
        "cudnn", default=True, when="+cuda", description="Attention by cuDNN where it is faster"
    )
    variant("openmp", default=True, description="Threads in portable kernels: Kokkos with OpenMP")
    variant("tests", default=False, description="Build the tests, and keep them in the build")

    if compilers_are_packages:
        depends_on("c", type="build")  # FindMPI and FindHDF5 ask for C
        depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")

    depends_on("mpi@3:")
    depends_on("hdf5@1.10: +mpi")
    depends_on("kokkos@3.4:")
    depends_on("kokkos+openmp", when="+openmp")
    depends_on("kokkos+serial", when="~openmp")
    depends_on("onednn@2.6: cpu_runtime=omp")
    depends_on("blas")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("xxhash@0.8:", type="build")
    depends_on("pcre2@10.40: +jit")
    depends_on("zlib-api")
    depends_on("zstd@1.4:")
    depends_on("libedit")
    depends_on("googletest@1.12:", type="test")  # of install --test=root
    depends_on("googletest@1.12:", type="build", when="+tests")

    with when("+cuda"):
        depends_on("cuda@12.4:")
        depends_on("nccl", when="+nccl")
        depends_on("cudnn@9.16:", when="+cudnn")
        conflicts("cuda_arch=none", msg="name the GPU, such as cuda_arch=90")
    # Kokkos computes on the host only, whatever the GPU; NCCL is built for the same GPUs.
    for arch in CudaPackage.cuda_arch_values:
        base = arch.rstrip("af")  # NCCL knows 90, not 90a
        depends_on(f"nccl cuda_arch={base}", when=f"+cuda+nccl cuda_arch={arch}")

    conflicts("%gcc@:11", msg="C++20 as it is used here needs GCC 12 or later")

    generator("ninja")

    sanity_check_is_file = ["bin/trireme", "share/trireme/inputs/quickstart.toml"]
    sanity_check_is_dir = ["share/trireme/jobs"]

    def cmake_args(self):
        spec = self.spec
        tests = self.run_tests or spec.satisfies("+tests")
        args = [
            self.define_from_variant("TRIREME_CUDA", "cuda"),
            self.define("TRIREME_NCCL", spec.satisfies("+nccl")),
            self.define("BUILD_TESTING", tests),
            self.define("TRIREME_NATIVE", False),  # Spack's wrapper names the processor
            self.define("TRIREME_WERROR", False),
            self.define("TRIREME_CHECK_HEADERS", False),
            self.define("TRIREME_PRECOMPILE", False),
            self.define("TRIREME_SANITIZE_TESTS", True),
            self.define("TRIREME_SANITIZE", ""),
            self.define("TRIREME_HARDENING", True),
            self.define("TRIREME_FUZZ", False),
            self.define("TRIREME_FETCH_DEPENDENCIES", False),  # no network while building
        ]
        if spec.satisfies("+cuda~cudnn"):
            args.append("-DCUDNN_LIBRARY=OFF")  # as if it were not there
        if spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", spec.variants["cuda_arch"].value))
        return args

    @run_after("build")
    @on_package_attributes(run_tests=True)
    def check_units(self):
        """The tests that need one process; the others want a launcher and more time."""
        with working_dir(self.build_directory):
            ctest = Executable(join_path(self.spec["cmake"].prefix.bin, "ctest"))
            ctest("--output-on-failure", "-L", "unit")

    def check(self):
        """check_units() has run them."""

    # Tests of an installed program: spack test run trireme

    def _trireme(self, *arguments):
        program = which(self.prefix.bin.trireme, required=True)
        return program(*arguments, output=str.split, error=str.split)

    def _quick_deck(self, directory):
        """A deck of two steps that needs no file but itself."""
        return [
            self.prefix.share.trireme.inputs.join("quickstart.toml"),
            "data.source=bytes",
            "data.paths=['{0}']".format(self.prefix.share.trireme.inputs.join("quickstart.toml")),
            "model.sequence=16",
            "batch.global=4",
            "batch.micro=1",
            "optimizer.schedule.warmup=0",
            "run.device=cpu",
            "run.directory={0}".format(directory),
        ]

    def test_version(self):
        """the program starts and names its libraries"""
        out = self._trireme("--version")
        for name in ("trireme", "HDF5", "Kokkos", "oneDNN"):
            assert name in out, f"--version does not name {name}"

    def test_help(self):
        """every deck key is explained"""
        assert "learning_rate" in self._trireme("help", "deck")

    def test_check_decks(self):
        """an installed deck passes every rule, without a GPU"""
        out = self._trireme("train", *self._quick_deck("check-run"), "--check", "--ranks", "2")
        assert "the deck is good" in out

    def _launcher(self):
        """The MPI's own; srun last: it starts nothing on a machine outside of its cluster."""
        launcher = which("mpiexec", "mpirun", path=[self.spec["mpi"].prefix.bin]) or which(
            "mpiexec", "mpirun", "srun"
        )
        if launcher is None:
            raise SkipTest("there is no MPI launcher")
        # Two ranks on one core, and as root in a container. Spack removes variables whose
        # names end in _ROOT.
        root = "OMPI_ALLOW_RUN_AS_ROOT"
        for name in (root, root + "_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"):
            launcher.add_default_env(name, "1")
        return launcher

    def test_train_and_resume(self):
        """two ranks train, stop and resume: the same losses as without a stop"""
        launcher = self._launcher()

        def train(directory, steps):
            launcher(
                "-n",
                "2",
                self.prefix.bin.trireme,
                "train",
                *self._quick_deck(directory),
                f"run.steps={steps}",
                "checkpoint.every=2",
                "optimizer.schedule.name=constant",
                "metrics.validate_every=0",
                output=str.split,
                error=str.split,
            )
            with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as file:
                return re.findall(r'"loss": ([^,}]+)', file.read())

        whole = train("whole-run", 4)
        train("cut-run", 2)
        assert len(whole) == 4
        assert train("cut-run", 4) == whole
