"""The API: names, quantities, models of Seiretsu's kinds, their CRDs, the Configuration. No I/O; imports no other
package of Seiretsu.
"""
