"""Events of a run as a timeline (`timeline`), and that as a file (`perfetto`). Nothing here knows who makes them."""
