"""``shmemu demo``: a mixture-of-experts layer over expert parallelism, real text in, checked output out."""
