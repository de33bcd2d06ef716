"""A pointer of Git LFS, which stands in a clone for a file that was not downloaded."""

LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)
PULL = "a Git LFS pointer: run git lfs pull"
