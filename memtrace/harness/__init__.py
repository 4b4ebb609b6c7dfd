"""The boundary suite's machinery: drive a system under test, record what happened, judge the record."""
