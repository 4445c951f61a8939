"""The rules themselves: pure Python, Arrow and NumPy. No Spark, no files, no clock."""
