"""`shmemu fuzz`: a program as processes over the fabric `nic`, seed after seed."""
